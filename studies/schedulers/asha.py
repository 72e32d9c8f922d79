"""ASHA: asynchronous successive halving, which pauses trials at rungs and promotes the best of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from studies.schedulers.geometric_rungs import GeometricRungs
from studies.schedulers.scheduler import Action, AtRung, RungScheduler, best_of
from studies.schedulers.trial_view import TrialView


class ASHA(RungScheduler):
    """Asynchronous successive halving with promotions (Li et al. 2018, arXiv 1810.05934).

    Rungs lie at ``min_resource * reduction_factor**k`` environment steps, below `max_resource`. A trial that reaches a
    rung is paused, unless it is among the best ``1 / reduction_factor`` of all trials that have reached the rung so far
    (rounded down), or equal to the last of these: trials of one seed are equal until they differ by an update. Trials
    that diverged on their way to the rung, or behind it, count as the worst of them. Whenever
    there is room for a trial, a paused one continues that has become one of these, of the highest rung that has any and
    the best first; otherwise a new trial begins. No trial waits for others, and none is stopped too early for good: it
    is promoted later if it turns out to be among the best.

    The paper assumes that there are always new configurations. A search ends, so when there are none left, the shares
    are rounded up: the best trial of every rung continues, and at least one trial is trained to the end.

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        max_resource: Environment steps of a whole run, > `min_resource`.
        reduction_factor: Inverse of the share that is promoted, >= 2.

    Raises:
        ValueError: If a number is out of range.
    """

    pauses = True

    def __init__(self, min_resource: int, max_resource: int, reduction_factor: int = 4) -> None:
        self._rungs = GeometricRungs(min_resource, reduction_factor)
        if max_resource <= min_resource:
            raise ValueError(
                f"min_resource is {min_resource}: the first rung must lie before the end of a run, at {max_resource} "
                "environment steps."
            )
        self._max_resource = max_resource

    def rung_of(self, step: int) -> int | None:
        return self._rungs.below(min(step, self._max_resource - 1))

    def is_due(self, trial: TrialView) -> bool:
        return (trial.last_step or 0) < self._max_resource and super().is_due(trial)

    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        promoted = _promoted(rung, trials)
        best = best_of(at_rung, (len(at_rung) + self.n_diverged(rung, trials)) // self._rungs.factor)
        decided = dict.fromkeys(at_rung, Action.PAUSE)
        decided |= dict.fromkeys(best, Action.PROMOTE)
        return decided | {number: Action.CONTINUE for number in at_rung if number in promoted}

    def promotable(self, trials: Sequence[TrialView], *, is_last: bool = False) -> list[int]:
        waiting: dict[int, set[int]] = {}  # rung -> paused trials
        before: list[int] = []  # paused before the first rung, which was lower when they were
        for trial in trials:
            rung = None if trial.last_step is None else self.rung_of(trial.last_step)
            if trial.state == "paused" and rung is None:
                before.append(trial.number)
            elif trial.state == "paused" and rung is not None:
                waiting.setdefault(rung, set()).add(trial.number)
        found: list[int] = []
        for rung in sorted(waiting, reverse=True):
            at_rung = self.at_rung(rung, trials)
            share = (len(at_rung) + self.n_diverged(rung, trials)) / self._rungs.factor
            best = best_of(at_rung, math.ceil(share) if is_last else math.floor(share))
            found += [number for number in best if number in waiting[rung]]
        return found + before


def _promoted(rung: int, trials: Sequence[TrialView]) -> set[int]:
    """Return the numbers of the trials that were promoted from a rung, or from a later one."""
    return {trial.number for trial in trials if trial.promoted_from is not None and trial.promoted_from >= rung}
