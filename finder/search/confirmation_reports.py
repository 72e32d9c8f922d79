"""Reports of the finalists that this process confirms: if the budget stops them, they are judged by their last one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from studies.spaces.spaces import Json

LEAST_SHARE = 0.75
"""Share of the runs of a search after which finalists that are stopped are judged."""


class ConfirmationReports:
    """Reports of running confirmations. `number in reports` tells whether a trial is one of them."""

    def __init__(self) -> None:
        self._reports: dict[int, dict[int, dict[int, float]]] = {}  # trial -> environment steps -> seed -> value

    def __contains__(self, number: int) -> bool:
        return number in self._reports

    def begun(self, number: int) -> None:
        """Record that a trial has begun, or continues after an interruption."""
        self._reports[number] = {}

    def add(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> None:
        """Record the values of trials, for each seed; those that are no confirmations are left out."""
        for number in values.keys() & self._reports.keys():
            self._reports[number][env_steps] = dict(values[number])

    def ended(self, number: int) -> None:
        """Forget a trial."""
        self._reports.pop(number, None)

    def last_common(self, stopped: Collection[int], budget: int) -> dict[int, dict[str, Json]]:
        """Return the last report that all stopped trials have made, as an attribute of each (`STOPPED_ATTR`).

        In replays of tables of finished runs, finalists that were stopped after three quarters of the runs of a search
        choose better than the search itself, and after half of them worse (benchmarks/results/stopped.md).

        Args:
            stopped: The trials. Those without a report after `LEAST_SHARE` of the runs of the search are left out.
            budget: Environment steps of each run of the search.

        Returns:
            Trial -> attribute; none if there is no such report.
        """
        least = math.ceil(LEAST_SHARE * budget)
        later = {
            number: {at: values for at, values in self._reports[number].items() if at >= least} for number in stopped
        }
        reached = {number: reports for number, reports in later.items() if reports}
        common = set.intersection(*map(set, reached.values())) if reached else set()
        if not common:
            return {}
        at = max(common)
        return {
            number: {"env_steps": at, "values": {str(seed): value for seed, value in reports[at].items()}}
            for number, reports in reached.items()
        }
