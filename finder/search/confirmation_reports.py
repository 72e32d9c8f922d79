"""Reports of the finalists that this process confirms: a budget that is spent before their ends judges by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from studies.statistics.values import mean_of_seeds

if TYPE_CHECKING:
    from finder.trials.trial import Outcome


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

    def at_last_common(self, stopped: Mapping[int, Outcome], least: int) -> dict[int, Outcome]:
        """Return the outcomes of stopped trials at the last report that all of them have made.

        Args:
            stopped: The trials, with their interrupted outcomes.
            least: Smallest number of environment steps. Trials without a report from there on are left out.
        """
        later = {number: _from(self._reports[number], least) for number in stopped}
        reached = {number: own for number, own in later.items() if own}
        common = _common(reached.values())
        if common is None:
            return {}
        return {
            number: replace(
                stopped[number],
                state="complete",
                reason="",
                env_steps=common,
                value=float(mean_of_seeds(list(own[common].values()))),
                seed_values=own[common],
            )
            for number, own in reached.items()
        }


def _from(reports: Mapping[int, dict[int, float]], least: int) -> dict[int, dict[int, float]]:
    return {env_steps: values for env_steps, values in reports.items() if env_steps >= least}


def _common(reports: Collection[Mapping[int, dict[int, float]]]) -> int | None:
    """Return the environment steps of the last report that all trials have made; None without one."""
    return max(set.intersection(*map(set, reports)), default=None) if reports else None
