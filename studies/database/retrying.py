"""Storages and tables whose calls are retried during outages, and take effect once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from studies.database.retries import RetryPolicy
from studies.spec.attributes import TOKEN_ATTR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial

    from studies.database.leases import LeaseTable


class _Retrying:
    """Proxy of an object whose methods call a storage; each call is retried.

    Args:
        target: Object.
        retry_policy: Policy.
    """

    def __init__(self, target: Any, retry_policy: RetryPolicy) -> None:
        self._target, self._retry_policy = target, retry_policy

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name.startswith("_") or not callable(found):
            return found

        def retried(*args: Any, **kwargs: Any) -> Any:
            return self._retry_policy(lambda: found(*args, **kwargs))

        setattr(self, name, retried)  # caches the attribute
        return retried


class RetryingStorage(_Retrying):
    """Optuna storage with retries; a call that was interrupted does not take effect twice."""

    _target: BaseStorage

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        def repeat() -> int:
            try:
                return self._target.create_new_study(directions, study_name)
            except DuplicatedStudyError:
                if study_name is None:
                    raise
                return self._target.get_study_id_from_name(study_name)

        return self._retry_policy(lambda: self._target.create_new_study(directions, study_name), repeat)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        if template_trial is None:
            return self._retry_policy(lambda: self._target.create_new_trial(study_id))
        token = os.urandom(8).hex()
        if self._retry_policy.seconds > 0:
            template_trial.system_attrs = {**template_trial.system_attrs, TOKEN_ATTR: token}

        def repeat() -> int:
            for trial in self._target.get_all_trials(study_id, deepcopy=False):
                if trial.system_attrs.get(TOKEN_ATTR) == token:
                    return trial._trial_id
            return self._target.create_new_trial(study_id, template_trial)

        return self._retry_policy(lambda: self._target.create_new_trial(study_id, template_trial), repeat)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        def repeat() -> bool:
            try:
                done = self._target.set_trial_state_values(trial_id, state, values)
            except UpdateFinishedTrialError:
                if self._target.get_trial(trial_id).state != state:
                    raise
                return True
            return done or self._target.get_trial(trial_id).state == state

        return self._retry_policy(lambda: self._target.set_trial_state_values(trial_id, state, values), repeat)


BaseStorage.register(RetryingStorage)


class RetryingTable(_Retrying):
    """Table with retries; writing a row twice is harmless."""

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """See `studies.database.leases.LeaseTable`; callers renew periodically, so there is no retry."""
        table: LeaseTable = self._target
        return self._retry_policy.once(lambda: table.renew(study, owner, seconds))

    def release(self, study: str, number: int, owner: str) -> bool:
        """See `studies.database.leases.LeaseTable`; a lease that is gone after an interrupted call was held."""
        table: LeaseTable = self._target
        return self._retry_policy(
            lambda: table.release(study, number, owner),
            lambda: table.release(study, number, owner) or number not in table.held(study),
        )
