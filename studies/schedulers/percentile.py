"""Percentile and median rule at equal environment steps, also for trials that reported at different steps."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.schedulers.scheduler import Action, Scheduler
from studies.schedulers.trial_view import TrialView
from studies.statistics.values import mean_of_seeds


class Percentile(Scheduler):
    """Stop trials whose best value is behind a percentile of the values of other trials at the same step.

    Optuna's `PercentilePruner` compares only with complete trials that reported at exactly the same step. Trials that
    run concurrently have no complete ones beside them, and rollouts of different lengths and budgets in episodes never
    meet at the same step; then it silently never prunes. This scheduler compares with every trial that has reached the
    step, running ones included, by linear interpolation of their curves. The curve of a stopped trial is extended by
    its last value, and a trial that diverged has the worst value from then on, so that the percentile does not rise
    with each stop or divergence.

    Args:
        percentile: Percentage of trials that are kept, 0 to 100; 50 is the median rule.
        n_startup_trials: Other trials that must have reached the step before any trial is stopped. Defaults to `4`.
        n_warmup_steps: Environment steps before which no trial is stopped. Defaults to `None`: half of the median
            length of the complete trials.
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
        self._n_others = max(n_startup_trials, n_min_trials)
        self._n_warmup_steps = n_warmup_steps

    def is_due(self, trial: TrialView) -> bool:
        step = trial.last_step
        return step is not None and (self._n_warmup_steps is None or step >= self._n_warmup_steps)

    def decide(self, trial: TrialView, trials: Sequence[TrialView]) -> Action:
        step = trial.last_step
        compared = [other for other in trials if other.state != "failed"]
        if step is None or (self._n_warmup_steps is None and step < _half_typical_length(compared)):
            return Action.CONTINUE
        others = [_value_at(other, step) for other in compared if other.number != trial.number]
        known = np.array([value for value in others if not math.isnan(value)])
        if len(known) < self._n_others:
            return Action.CONTINUE
        values = [float(mean_of_seeds(own)) for own in trial.values.values()]
        if np.isnan(values).all():
            return Action.STOP
        return Action.STOP if float(np.nanmax(values)) < _percentile(known, 100 - self._percentile) else Action.CONTINUE


def _percentile(values: np.ndarray[Any, Any], percentage: float) -> float:
    """Return a percentile by linear interpolation; -inf between -inf and a number."""
    lower = float(np.percentile(values, percentage, method="lower"))
    return float(np.percentile(values, percentage)) if math.isfinite(lower) else lower


def _value_at(trial: TrialView, step: int) -> float:
    """Return the interpolated value of a trial at `step`; NaN outside its reports, unless it ended before.

    A trial that was pruned keeps its last value, and one that diverged has -inf.
    """
    steps = sorted(trial.values)
    if trial.state == "diverged" and (not steps or step > steps[-1]):
        return -math.inf
    if not steps or step < steps[0]:
        return math.nan
    if step > steps[-1]:
        return _mean_at(trial, steps[-1]) if trial.state == "pruned" else math.nan
    after = bisect.bisect_left(steps, step)
    ends = steps[max(0, after - 1) : after + 1]
    return float(np.interp(step, ends, [_mean_at(trial, end) for end in ends]))


def _mean_at(trial: TrialView, step: int) -> float:
    own = trial.values[step]
    return own[0] if len(own) == 1 else float(mean_of_seeds(own))


def _half_typical_length(trials: Sequence[TrialView]) -> float:
    lengths = [step for trial in trials if trial.state == "complete" and (step := trial.last_step) is not None]
    return float(np.median(lengths)) / 2 if lengths else math.inf
