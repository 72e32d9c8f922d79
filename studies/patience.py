"""Waiting for a storage that is away for a while: a database that starts anew, a network that is cut, a full disk."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from studies.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial

    from studies.leases import LeaseTable

log = logging.getLogger(__name__)

_T = TypeVar("_T")

PATIENCE_VARIABLE = "FINDER_STORAGE_SECONDS"
"""Environment variable: how long a running study waits for its storage."""

PATIENCE_SECONDS = 300.0
"""How long it waits where nobody says otherwise."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0

_FOR_EVER = ("readonly database", "read-only", "no such table", "no such column", "authentication", "does not exist")
"""In what databases say where waiting is of no use."""

_TOKEN = "finder:token"
"""System attribute of a trial: what a trial is found by again, whose creation nobody confirmed."""


class StorageAwayError(StudyError):
    """A storage has not answered for as long as a running study waits, or says that waiting is of no use."""


class Trouble(NamedTuple):
    """What is wrong with a storage.

    Attributes:
        told: What it says, in a few words.
        may_pass: Whether it may be there again in a while.
    """

    told: str
    may_pass: bool


class Patience:
    """Calls a storage again while it is away.

    Args:
        label: What the storage is called.

    Attributes:
        seconds: How long it is waited for; 0, as for everyone who only reads, for not at all.
        is_over: Whether it was waited for in vain. Then nobody waits again.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._is_running = False
        self.seconds = 0.0
        self.is_over = False

    def begin(self, seconds: float) -> None:
        """From now on a study is run in the storage, and it is waited for."""
        self._is_running, self.seconds, self.is_over = True, seconds, False

    def __call__(self, call: Callable[[], _T], after_failure: Callable[[], _T] | None = None) -> _T:
        """Returns what a call returns.

        Args:
            call: What to call.
            after_failure: What to call instead when it was cut short before, so that nobody knows whether it was heard.

        Raises:
            StorageAwayError: If the storage stays away.
            Exception: What the call raises where the storage is there, or nobody runs a study in it.
        """
        try:
            return call()
        except Exception as error:
            trouble = trouble_of(error)
            if not self._is_running or trouble is None:
                raise
            if self.is_over or not trouble.may_pass or self.seconds <= 0:
                raise self._given_up(trouble) from error
            return self._wait(after_failure or call, trouble)

    def _wait(self, call: Callable[[], _T], trouble: Trouble) -> _T:
        began, wait = time.monotonic(), _FIRST_WAIT
        log.warning("%s does not answer (%s): trying again for %g s.", self._label, trouble.told, self.seconds)
        while True:
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
            try:
                result = call()
            except Exception as error:
                now = trouble_of(error)
                if now is None:
                    raise
                if not now.may_pass or time.monotonic() - began > self.seconds:
                    raise self._given_up(now) from error
            else:
                log.warning("%s answers again, after %.0f s.", self._label, time.monotonic() - began)
                return result

    def _given_up(self, trouble: Trouble) -> StorageAwayError:
        self.is_over = True
        if not trouble.may_pass:
            return StorageAwayError(f"{self._label} cannot be written ({trouble.told}).")
        return StorageAwayError(f"{self._label} has not answered for {self.seconds:g} s ({trouble.told}).")


def patience_seconds() -> float:
    """Returns how long a running study waits for its storage, in seconds.

    Raises:
        StudyError: The environment variable is no number of seconds.
    """
    said = os.environ.get(PATIENCE_VARIABLE, "")
    if not said:
        return PATIENCE_SECONDS
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StudyError(f"{PATIENCE_VARIABLE} is {said!r}: give seconds, from 0 (do not wait).")
    return seconds


def trouble_of(error: BaseException) -> Trouble | None:
    """Returns what an error says is wrong with a storage; None where it says something else."""
    for each in _causes(error):
        told = " ".join(str(getattr(each, "orig", None) or each).split())[:200]
        if isinstance(each, DBAPIError):
            if each.connection_invalidated or isinstance(each, OperationalError | InterfaceError):
                return Trouble(told, not any(words in told.lower() for words in _FOR_EVER))
            return None
        if isinstance(each, PoolTimeoutError):
            return Trouble(told, may_pass=True)
        if type(each).__module__.startswith("grpc"):
            return _trouble_behind(each)
        if isinstance(each, OSError):
            return Trouble(told, not isinstance(each, FileNotFoundError | PermissionError))
    return None


def _trouble_behind(error: Any) -> Trouble | None:
    """The same for an error of a gRPC proxy: it is away itself, or its own storage is."""
    code = error.code().name if callable(getattr(error, "code", None)) else ""
    if code in ("UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"):
        told = " ".join(str(error.details()).split())[:160]
        return Trouble(f"{code}: {told}", not any(words in told.lower() for words in _FOR_EVER))
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


class _Patient:
    """Whatever has methods that call a storage: each call of them is patient.

    Args:
        target: What it is.
        patience: How patient.
    """

    def __init__(self, target: Any, patience: Patience) -> None:
        self._target, self._patience = target, patience

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name.startswith("_") or not callable(found):
            return found

        def patiently(*args: Any, **kwargs: Any) -> Any:
            return self._patience(lambda: found(*args, **kwargs))

        setattr(self, name, patiently)  # is looked up once
        return patiently


class PatientStorage(_Patient):
    """An Optuna storage; where a call was cut short, it is not done twice."""

    _target: BaseStorage

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        """See `optuna.storages.BaseStorage`."""

        def again() -> int:
            try:
                return self._target.create_new_study(directions, study_name)
            except DuplicatedStudyError:
                if study_name is None:
                    raise
                return self._target.get_study_id_from_name(study_name)

        return self._patience(lambda: self._target.create_new_study(directions, study_name), again)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """See `optuna.storages.BaseStorage`."""
        if template_trial is None:
            return self._patience(lambda: self._target.create_new_trial(study_id))
        token = os.urandom(8).hex()
        if self._patience.seconds > 0:
            template_trial.system_attrs = {**template_trial.system_attrs, _TOKEN: token}

        def again() -> int:
            for trial in self._target.get_all_trials(study_id, deepcopy=False):
                if trial.system_attrs.get(_TOKEN) == token:
                    return trial._trial_id
            return self._target.create_new_trial(study_id, template_trial)

        return self._patience(lambda: self._target.create_new_trial(study_id, template_trial), again)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """See `optuna.storages.BaseStorage`."""

        def again() -> bool:
            try:
                done = self._target.set_trial_state_values(trial_id, state, values)
            except UpdateFinishedTrialError:
                if self._target.get_trial(trial_id).state != state:
                    raise
                return True
            return done or self._target.get_trial(trial_id).state == state

        return self._patience(lambda: self._target.set_trial_state_values(trial_id, state, values), again)


BaseStorage.register(PatientStorage)


class PatientTable(_Patient):
    """One of our own tables: what is written twice is there once."""

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """See `studies.leases.LeaseTable`; whoever renews tries again by itself."""
        renewed: set[int] = self._target.renew(study, owner, seconds)
        return renewed

    def release(self, study: str, number: int, owner: str) -> bool:
        """See `studies.leases.LeaseTable`: what is gone after a call that was cut short was ours."""
        table: LeaseTable = self._target
        return self._patience(
            lambda: table.release(study, number, owner),
            lambda: table.release(study, number, owner) or number not in table.held(study),
        )
