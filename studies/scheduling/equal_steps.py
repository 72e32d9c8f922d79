"""Percentile pruning at equal environment steps, also for trials that reported at different steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import TrialState

from studies.spec.attributes import is_confirmation

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


class EqualStepsPruner(BasePruner):
    """Prune trials whose best value is behind a percentile of the values of other trials at the same step.

    Optuna's `PercentilePruner` compares only with complete trials that reported at exactly the same step. Trials that
    run concurrently have no complete ones beside them, and rollouts of different lengths and budgets in episodes never
    meet at the same step; then it silently never prunes. This pruner compares with every trial that has reached the
    step, running ones included, by linear interpolation of their curves. The curve of a pruned trial is extended by its
    last value, so that the percentile does not rise with each pruning. The warm-up is checked before the storage is
    accessed, which costs milliseconds per report.

    Args:
        percentile: Percentage of trials that are kept, 0 to 100; 50 is the median rule.
        n_startup_trials: Other trials that must have reached the step before any trial is pruned. Defaults to `4`.
        n_warmup_steps: Environment steps before which no trial is pruned. Defaults to `None`: half of the median length
            of the complete trials.
        n_min_trials: As `n_startup_trials`, by the name that Optuna uses; the larger one counts. Defaults to `1`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        percentile: float = 50.0,
        n_startup_trials: int = 4,
        n_warmup_steps: int | None = None,
        n_min_trials: int = 1,
    ) -> None:
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile is {percentile}: it must be from 0 to 100.")
        if n_startup_trials < 0:
            raise ValueError(f"n_startup_trials is {n_startup_trials}: it must be at least 0.")
        if n_warmup_steps is not None and n_warmup_steps < 0:
            raise ValueError(f"n_warmup_steps is {n_warmup_steps}: it must be at least 0.")
        if n_min_trials < 1:
            raise ValueError(f"n_min_trials is {n_min_trials}: it must be at least 1.")
        self._percentile = percentile
        self._n_startup_trials = n_startup_trials
        self._n_warmup_steps = n_warmup_steps
        self._n_min_trials = n_min_trials

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the trial is behind at its last reported step."""
        step = trial.last_step
        if step is None or (self._n_warmup_steps is not None and step < self._n_warmup_steps):
            return False
        trials = [other for other in study.get_trials(deepcopy=False, states=_STATES) if not is_confirmation(other)]
        if self._n_warmup_steps is None and step < _half_typical_length(trials):
            return False
        others = [_value_at(other, step) for other in trials if other.number != trial.number]
        known = np.array([value for value in others if not math.isnan(value)])
        if len(known) < max(self._n_startup_trials, self._n_min_trials):
            return False
        return self._is_behind(trial, known, study.direction == StudyDirection.MAXIMIZE)

    def _is_behind(self, trial: FrozenTrial, others: npt.NDArray[np.float64], maximize: bool) -> bool:
        values = np.asarray(list(trial.intermediate_values.values()), dtype=float)
        if np.isnan(values).all():
            return True
        best = float(np.nanmax(values) if maximize else np.nanmin(values))
        if maximize:
            return best < float(np.percentile(others, 100 - self._percentile))
        return best > float(np.percentile(others, self._percentile))


_STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING, TrialState.WAITING)


def _value_at(trial: FrozenTrial, step: int) -> float:
    """Return the interpolated value of a trial at `step`; NaN outside its reports, unless it was pruned before."""
    if not trial.intermediate_values:
        return math.nan
    steps, values = zip(*sorted(trial.intermediate_values.items()), strict=True)
    beyond = values[-1] if trial.state == TrialState.PRUNED else math.nan
    return float(np.interp(step, steps, values, left=math.nan, right=beyond))


def _half_typical_length(trials: list[FrozenTrial]) -> float:
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    lengths = [trial.last_step for trial in complete if trial.last_step is not None]
    return float(np.median(lengths)) / 2 if lengths else math.inf
