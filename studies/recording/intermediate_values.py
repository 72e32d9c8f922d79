"""Intermediate values of running trials: few, at equal steps, and those of single seeds if the scheduler needs them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import Trial

from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.database.fencing import fenced
from studies.schedulers.scheduler import RungScheduler
from studies.spec.attributes import RUNG_ATTR

if TYPE_CHECKING:
    from studies.coordination.lease_manager import LeaseManager
    from studies.study.study import OpenStudy


class IntermediateValues:
    """Intermediate values that the running trials of a study have reported.

    Args:
        study: The study.
        leases: Leases of this process.
    """

    def __init__(self, study: OpenStudy, leases: LeaseManager) -> None:
        self._leases = leases
        self._writes = study.storage.trial_writes
        self._spec = study.spec
        pruner = study.study.pruner
        self._scheduler = pruner.scheduler if isinstance(pruner, SchedulerPruner) else None
        self._steps: dict[int, set[int]] = {}
        self._passed: dict[int, int] = {}  # resumed trial -> environment steps of its last report before

    def start(self, trial: Trial) -> None:
        """Record the start of a trial; a resumed one reports its earlier values again."""
        self._steps[trial.number] = set()
        before = trial._cached_frozen_trial.last_step or 0
        self._passed[trial.number] = max(before, self._passed.get(trial.number, 0))
        own = copy.copy(trial._cached_frozen_trial)  # some storages return their own object
        own.intermediate_values = {}  # schedulers consider only the reports of this run
        trial._cached_frozen_trial = own

    def end(self, number: int) -> None:
        """Record the end of a trial."""
        del self._steps[number], self._passed[number]

    def has_passed(self, number: int, env_steps: int) -> bool:
        """Return whether a resumed trial was let pass at this step before, where only later trials could stop it."""
        return env_steps < self._passed.get(number, 0)

    def record(self, env_steps: int, values: Sequence[tuple[Trial, float]], *, always: bool = False) -> list[Trial]:
        """Record values that are finite and due, all or none of them; return the trials whose values were recorded.

        Args:
            env_steps: Environment steps that each seed of each trial has taken.
            values: Pairs of a trial and its value.
            always: Whether a value is due unless its trial has one at this step already.

        Raises:
            LeaseLostError: The lease of one of the trials was lost.
            UpdateFinishedTrialError: One of the trials has ended.
        """
        due = [(trial, float(value)) for trial, value in values if self._is_due(trial, env_steps, value, always)]
        if not due:
            return []
        with fenced(self._leases.fence([trial.number for trial, _ in due])):
            self._writes.report(int(env_steps), {trial._trial_id: value for trial, value in due})
        for trial, value in due:
            trial._cached_frozen_trial.intermediate_values[int(env_steps)] = value
            self._steps[trial.number].add(env_steps)
        return [trial for trial, _ in due]

    def record_seeds(self, trial: Trial, env_steps: int, seed_values: Mapping[int, float]) -> None:
        """Record the values of single seeds at a rung, if the scheduler requires them; call after `record`."""
        scheduler = self._scheduler
        if not isinstance(scheduler, RungScheduler) or not scheduler.needs_seed_values:
            return
        rung = scheduler.rung_of(env_steps)
        if rung is not None and min(step for step in self._steps[trial.number] if step >= rung) == env_steps:
            own = {str(seed): float(value) for seed, value in seed_values.items()}
            trial.set_user_attr(RUNG_ATTR, {**trial.user_attrs.get(RUNG_ATTR, {}), str(env_steps): own})

    def _is_due(self, trial: Trial, env_steps: int, value: float, always: bool) -> bool:
        """Return whether a value is due.

        There is at most one per step, and few enough for storages and dashboards to stay fast.
        """
        reported = self._steps[trial.number]
        if not math.isfinite(value) or env_steps in reported:
            return False
        if always:
            return True
        if self._spec.env_steps is None:
            return len(reported) < 2 * self._spec.n_reports
        spacing = self._spec.env_steps / self._spec.n_reports
        return not reported or env_steps - max(reported) >= spacing / 2
