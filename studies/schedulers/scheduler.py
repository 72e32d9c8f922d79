"""Schedulers: which trials of a search continue. Pure functions of the trials so far."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum

from studies.schedulers.trial_view import TrialView
from studies.statistics.values import mean_of_seeds


class Action(StrEnum):
    """Decision on a running trial.

    A paused trial waits, with its state saved, until the scheduler promotes it (`Scheduler.promotable`). A trial that
    is promoted at its report continues without a pause; the promotion is recorded.
    """

    CONTINUE = "continue"
    STOP = "stop"
    PAUSE = "pause"
    PROMOTE = "promote"

    @property
    def continues(self) -> bool:
        """Return whether the trial continues."""
        return self in (Action.CONTINUE, Action.PROMOTE)


AtRung = Mapping[int, tuple[float, ...]]
"""Number of a trial -> value of each seed at a rung, or the value over seeds alone; higher is better, never NaN."""


class Scheduler(ABC):
    """Base class for schedulers, which decide at reports of running trials whether they continue.

    A decision depends on the given trials and on nothing else: several processes may run a study, and it may be killed
    and resumed, or replayed over a table of finished runs (`studies.simulation`). A scheduler is therefore immutable;
    it does not know Optuna, whose studies reach it through `studies.adapters.scheduler_pruner`.

    Subclasses are given environment steps in their constructor and raise `ValueError` if a number is out of range.

    Attributes:
        needs_seed_values: Whether single seeds are compared, whose values are then stored at the reports that are
            judged. Defaults to False.
        pauses: Whether trials may be paused, whose states are then saved. Defaults to False.
    """

    needs_seed_values: bool = False
    pauses: bool = False

    def promotable(self, trials: Sequence[TrialView], *, is_last: bool = False) -> list[int]:
        """Return the numbers of the paused trials that may continue now, the first ones first.

        Args:
            trials: All trials of the search.
            is_last: Whether there are no further trials to begin. Defaults to False.
        """
        return []

    @abstractmethod
    def is_due(self, trial: TrialView) -> bool:
        """Return whether a trial is judged at its last report. Other trials do not matter for this."""

    @abstractmethod
    def decide(self, trial: TrialView, trials: Sequence[TrialView]) -> Action:
        """Return the decision on a trial that is due, after its last report.

        Args:
            trial: The trial.
            trials: All trials of the search, this one included. Confirmations are not among them.
        """

    def decisions(self, reported: Sequence[TrialView], trials: Sequence[TrialView]) -> dict[int, Action]:
        """Return the decision on each trial that is due, of those that have reported at the same time.

        Args:
            reported: Running trials, each with a new report.
            trials: All trials of the search, these included.
        """
        return {trial.number: self.decide(trial, trials) for trial in reported if self.is_due(trial)}


class RungScheduler(Scheduler):
    """Base class for schedulers that compare trials at rungs.

    A trial reaches a rung with its first report at or after it. It is compared with every trial that has reported at
    that rung and did not fail, including ended ones. Where trials advance together, as in a population, the comparison
    is synchronous whatever the order of calls; where they advance independently, the first ones meet few others and
    later ones are judged more strictly. Live searches report finite values only: a trial without one is compared at its
    next report. A value of NaN never continues.

    Schedulers that continue a share of the trials at a rung count those that diverged (`n_diverged`): the papers rank
    all configurations that were begun, and a diverged one has an infinite loss.
    """

    @abstractmethod
    def rung_of(self, step: int) -> int | None:
        """Return the highest rung at or below a step, None before the first."""

    @abstractmethod
    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        """Return the decision on each trial at a rung.

        Args:
            rung: Environment steps of the rung.
            at_rung: Trials at the rung, at least one.
            trials: All trials of the search.
        """

    def is_due(self, trial: TrialView) -> bool:
        step = trial.last_step
        rung = None if step is None else self.rung_of(step)
        return rung is not None and trial.first_at(rung) == step

    def decide(self, trial: TrialView, trials: Sequence[TrialView]) -> Action:
        return self._decide(trial, trials, {})

    def decisions(self, reported: Sequence[TrialView], trials: Sequence[TrialView]) -> dict[int, Action]:
        judged: dict[int, Mapping[int, Action]] = {}  # all trials of a rung are judged at once
        return {trial.number: self._decide(trial, trials, judged) for trial in reported if self.is_due(trial)}

    def _decide(self, trial: TrialView, trials: Sequence[TrialView], judged: dict[int, Mapping[int, Action]]) -> Action:
        step = trial.last_step
        rung = None if step is None else self.rung_of(step)
        if step is None or rung is None:
            return Action.CONTINUE
        if any(map(math.isnan, trial.values[step])):
            return Action.STOP
        if rung not in judged:
            judged[rung] = self.on_rung(rung, self.at_rung(rung, trials), trials)
        return judged[rung].get(trial.number, Action.CONTINUE)

    def at_rung(self, rung: int, trials: Sequence[TrialView]) -> AtRung:
        """Return the trials that have reported at a rung, with their values there."""
        found: dict[int, tuple[float, ...]] = {}
        for trial in trials:
            at = trial.first_at(rung)
            if at is None or self.rung_of(at) != rung:  # a resumed study may report at other steps than before
                continue
            if trial.counts and not any(map(math.isnan, trial.values[at])):
                found[trial.number] = trial.values[at]
        return found

    def n_diverged(self, rung: int, trials: Sequence[TrialView], first: int | None = None) -> int:
        """Return how many trials diverged on their way to a rung or behind it, which makes them the worst there.

        Trials that diverged before an earlier rung count there. Those that failed for other reasons count nowhere.

        Args:
            rung: Environment steps of the rung.
            trials: Trials that are compared with each other.
            first: The first rung at which they are judged. Defaults to None: the first of all.
        """
        before = None if rung == first else self.rung_of(rung - 1)
        return sum(
            trial.state == "diverged" and (before is None or (trial.last_step or 0) >= before) for trial in trials
        )


def keep(kept: set[int], at_rung: AtRung) -> dict[int, Action]:
    """Return the decisions by which some of the trials at a rung continue and the others stop."""
    return {number: Action.CONTINUE if number in kept else Action.STOP for number in at_rung}


def best_of(at_rung: AtRung, n: int) -> list[int]:
    """Return the best `n` trials at a rung and those that are equal to the last of them, the best first."""
    values = {number: float(mean_of_seeds(own)) for number, own in at_rung.items()}
    ordered = sorted(values, key=lambda number: (-values[number], number))
    return ordered[:n] + [number for number in ordered[n:] if n and values[number] == values[ordered[n - 1]]]
