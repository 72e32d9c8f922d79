"""Successive halving: the best part of the trials at each rung continues."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from studies.schedulers.geometric_rungs import GeometricRungs
from studies.schedulers.scheduler import Action, AtRung, RungScheduler, best_of, keep
from studies.schedulers.trial_view import TrialView


class Halving(RungScheduler):
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): the best part of each rung continues.

    Rungs lie at ``min_resource * reduction_factor**k`` environment steps; of the trials at a rung the best ``1 /
    reduction_factor`` continue (rounded up). Trials that diverged count as the worst: of nine, three of which diverged
    before the first rung, three continue with a factor of 3. (Optuna's `SuccessiveHalvingPruner` always lets the first
    trial pass, and does not count trials that never reached the rung.)

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        reduction_factor: Inverse of the share that continues, >= 2.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, min_resource: int, reduction_factor: int = 4) -> None:
        self._rungs = GeometricRungs(min_resource, reduction_factor)

    def rung_of(self, step: int) -> int | None:
        return self._rungs.below(step)

    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        n_trials = len(at_rung) + self.n_diverged(rung, trials)
        return keep(set(best_of(at_rung, math.ceil(n_trials / self._rungs.factor))), at_rung)
