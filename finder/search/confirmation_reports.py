"""Reports of the finalists that this process confirms: if the budget stops them, they are judged by their last one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from studies.spaces.spaces import Json

LEAST_SHARE = 0.75
"""Share of the runs of a search after which finalists that are stopped are judged."""


class ConfirmationReports:
    """Reports of running confirmations. `number in reports` tells whether a trial is one of them."""

    def __init__(self) -> None:
        self._reports: dict[int, dict[int, dict[int, float]]] = {}  # trial -> environment steps -> seed -> value
        self._finalists: dict[int, int] = {}  # trial -> finalist that it confirms

    def __contains__(self, number: int) -> bool:
        return number in self._reports

    def begun(self, number: int, confirms: int) -> None:
        """Record that a trial, which confirms another one, has begun, or continues after an interruption."""
        self._reports[number] = {}
        self._finalists[number] = confirms

    def add(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> None:
        """Record the values of trials, for each seed; those that are no confirmations are left out."""
        for number in values.keys() & self._reports.keys():
            self._reports[number][env_steps] = dict(values[number])

    def ended(self, number: int) -> None:
        """Forget a trial."""
        self._reports.pop(number, None)

    def last_common(
        self, stopped: Collection[int], finalists: Collection[int], budget: int
    ) -> dict[int, dict[str, Json]]:
        """Return the last report that all finalists have made, as an attribute of each (`STOPPED_ATTR`).

        In replays of tables of finished runs, finalists that were stopped after three quarters of the runs of a search
        choose better than the search itself, and after half of them worse (benchmarks/results/stopped.md).

        Args:
            stopped: The trials.
            finalists: The finalists that were to be confirmed.
            budget: Environment steps of each run of the search.

        Returns:
            Trial -> attribute; none if a finalist has no such report after `LEAST_SHARE` of the runs of the search.
        """
        if not stopped or not {*finalists} <= {self._finalists[number] for number in stopped}:
            return {}
        at = max(set.intersection(*(set(self._reports[number]) for number in stopped)), default=0)
        if at < LEAST_SHARE * budget:
            return {}
        return {
            number: {"env_steps": at, "values": {str(seed): own for seed, own in self._reports[number][at].items()}}
            for number in stopped
        }
