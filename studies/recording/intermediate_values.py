"""Intermediate values of running trials: few, at equal steps, and those of single seeds if the pruner requires them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optuna.trial import Trial

from studies.scheduling.rungs import RungPruner
from studies.spec.attributes import RUNG_ATTR

if TYPE_CHECKING:
    from studies.study.study import OpenStudy


class IntermediateValues:
    """Intermediate values that the running trials of a study have reported.

    Args:
        study: The study.
    """

    def __init__(self, study: OpenStudy) -> None:
        self._spec = study.spec
        self._pruner = study.study.pruner
        self._steps: dict[int, set[int]] = {}
        self._before: dict[int, set[int]] = {}

    def start(self, trial: Trial) -> None:
        """Record the start of a trial; a resumed one reports its earlier values again."""
        self._steps[trial.number] = set()
        self._before[trial.number] = set(trial.storage.get_trial(trial._trial_id).intermediate_values)
        own = copy.copy(trial._cached_frozen_trial)  # some storages return their own object
        own.intermediate_values = {}  # pruners consider only the reports of this run
        trial._cached_frozen_trial = own

    def end(self, number: int) -> None:
        """Record the end of a trial."""
        del self._steps[number], self._before[number]

    def record(self, trial: Trial, env_steps: int, value: float, *, always: bool = False) -> bool:
        """Record a value if it is finite and due; return whether it was recorded.

        Args:
            trial: Trial.
            env_steps: Environment steps that each seed has taken.
            value: Value.
            always: Whether it is due unless there is one at this step already.
        """
        if not math.isfinite(value) or env_steps in self._steps[trial.number]:
            return False
        if not (always or self._is_due(self._steps[trial.number], env_steps)):
            return False
        if env_steps in self._before[trial.number]:  # Optuna's `report` would keep the old value
            trial.storage.set_trial_intermediate_value(trial._trial_id, int(env_steps), float(value))
            trial._cached_frozen_trial.intermediate_values[int(env_steps)] = float(value)
        else:
            trial.report(float(value), step=int(env_steps))
        self._steps[trial.number].add(env_steps)
        return True

    def record_seeds(self, trial: Trial, env_steps: int, seed_values: Mapping[int, float]) -> None:
        """Record the values of single seeds at a rung, if the pruner requires them; call after `record`."""
        if not isinstance(self._pruner, RungPruner) or not self._pruner.needs_seed_values:
            return
        rung = self._pruner.rung_of(env_steps)
        if rung is not None and min(step for step in self._steps[trial.number] if step >= rung) == env_steps:
            own = {str(seed): float(value) for seed, value in seed_values.items()}
            trial.set_user_attr(RUNG_ATTR, {**trial.user_attrs.get(RUNG_ATTR, {}), str(env_steps): own})

    def _is_due(self, reported: set[int], env_steps: int) -> bool:
        """Return whether a report is due.

        There is at most one per step, and few enough for storages and dashboards to stay fast.
        """
        if self._spec.env_steps is None:
            return len(reported) < 2 * self._spec.n_reports
        spacing = self._spec.env_steps / self._spec.n_reports
        return not reported or env_steps - max(reported) >= spacing / 2
