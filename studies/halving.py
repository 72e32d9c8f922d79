"""Successive halving at equal environment steps (Jamieson and Talwalkar 2016, arXiv 1502.07943)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optuna.pruners import BasePruner
from optuna.study import StudyDirection

from studies.attributes import is_confirmation

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


class HalvingPruner(BasePruner):
    """Keeps the best part of the trials that have come to each rung.

    Rungs lie at ``min_resource * reduction_factor**k`` environment steps; a trial is at a rung with its first report at
    or after it. There it is compared with every trial of the study that has reported at that rung, also those that
    ended there, and goes on if it is among the best ``1 / reduction_factor`` of them (rounded up). Where trials go from
    rung to rung together, as in a population, that is exactly synchronous halving, whatever order they are asked in;
    where each goes by itself, the first ones meet few others and later ones are judged more strictly. (Optuna's
    `SuccessiveHalvingPruner` lets the first trial that it is asked about pass whatever the others have reported.)

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        reduction_factor: Which part goes on, >= 2.

    Raises:
        ValueError: If a number is out of its range.
    """

    def __init__(self, min_resource: int, reduction_factor: int = 4) -> None:
        if min_resource < 1:
            raise ValueError(f"min_resource is {min_resource}: it must be at least 1.")
        if reduction_factor < 2:
            raise ValueError(f"reduction_factor is {reduction_factor}: it must be at least 2.")
        self._min_resource = min_resource
        self._reduction_factor = reduction_factor

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Returns whether the trial is at a rung with its last report, and not among the best there."""
        step = trial.last_step
        rung = None if step is None else self._rung_of(step)
        if step is None or rung is None or _first_at(trial, rung) != step:
            return False
        own = trial.intermediate_values[step]
        if math.isnan(own):
            return True
        values = []
        for other in study.get_trials(deepcopy=False):
            at = None if is_confirmation(other) else _first_at(other, rung)
            if at is not None and not math.isnan(other.intermediate_values[at]):
                values.append(other.intermediate_values[at])
        if study.direction == StudyDirection.MINIMIZE:
            own, values = -own, [-value for value in values]
        n_kept = math.ceil(len(values) / self._reduction_factor)
        return sum(value > own for value in values) >= n_kept

    def _rung_of(self, step: int) -> int | None:
        """The highest rung at or below a step."""
        if step < self._min_resource:
            return None
        rung = self._min_resource
        while rung * self._reduction_factor <= step:
            rung *= self._reduction_factor
        return rung


def _first_at(trial: FrozenTrial, rung: int) -> int | None:
    """The step of a trial's first report at or after a rung."""
    return min((step for step in trial.intermediate_values if step >= rung), default=None)
