"""Waiting for a storage that is away for a while: a database that starts anew, a network that is cut, a full disk."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from studies.database.damage import damaged, is_of_contents, reason_of
from studies.errors import StudyError
from studies.spec.attributes import TOKEN_ATTR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial

    from studies.database.leases import LeaseTable

log = logging.getLogger(__name__)

_T = TypeVar("_T")

PATIENCE_VARIABLE = "FINDER_STORAGE_SECONDS"
"""Environment variable: how long a running study waits for its storage."""

PATIENCE_SECONDS = 300.0
"""How long it waits where nobody says otherwise."""

CALL_SECONDS = 60.0
"""How long one call of a server may take before it is made again."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_SHORTEST_CALL, _CALL_WHEN_OVER = 0.1, 1.0

_FOR_EVER = (
    "readonly database",
    "read-only",
    "no such table",
    "no such column",
    "authentication",
    "does not exist",
    "was deleted or replaced",
)
"""In what databases say where waiting is of no use."""

_PASSING = ("UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED", "INTERNAL")
"""gRPC's codes of calls that may be answered when they are made again."""

_ANSWERS = ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION")
"""gRPC's codes with which a storage answers: there is no such trial, or it has ended."""


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


class Refusal(Trouble):
    """A server refuses a call for good: it wants a token, or knows no such call."""


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
        self._silent_since: float | None = None
        self._own = threading.local()  # when the call of each thread was first made
        self.seconds = 0.0
        self.is_over = False

    def begin(self, seconds: float) -> None:
        """From now on a study is run in the storage, and it is waited for."""
        self._is_running, self.seconds, self.is_over, self._silent_since = True, seconds, False, None

    @property
    def call_seconds(self) -> float:
        """How long a call of a server may take that this thread makes now, so that it ends within the patience."""
        if self.is_over:
            return _CALL_WHEN_OVER
        if not self._is_running:
            return min(CALL_SECONDS, patience_seconds() or CALL_SECONDS)
        if self.seconds <= 0:
            return CALL_SECONDS
        began = getattr(self._own, "began", None) or time.monotonic()
        return min(CALL_SECONDS, max(self._left(began), _SHORTEST_CALL))

    @property
    def silence_seconds(self) -> float:
        """How long a call of a database server may stay without any answer at this moment.

        Who runs no study may have long calls to make: a study is removed, tables of an earlier version are changed.
        """
        return self.call_seconds if self._is_running else max(patience_seconds(), CALL_SECONDS)

    def silent_for(self, seconds: float) -> None:
        """Notes that a call of so long ago was not answered. The patience of all threads is counted from there."""
        since = time.monotonic() - seconds
        self._silent_since = since if self._silent_since is None else min(self._silent_since, since)

    def __call__(self, call: Callable[[], _T], after_failure: Callable[[], _T] | None = None) -> _T:
        """Returns what a call returns.

        Args:
            call: What to call.
            after_failure: What to call instead when it was cut short before, so that nobody knows whether it was heard.

        Raises:
            StorageAwayError: If the storage stays away, or a server refuses the call.
            StudyError: If the storage is damaged, or nobody runs a study in it and it cannot be used.
            Exception: What the call raises where the storage is there.
        """
        began = time.monotonic()
        try:
            return self._made(call, began)
        except Exception as error:
            trouble = trouble_of(error)
            if trouble is None or not (self._is_running or _is_of_server(error)):
                if is_of_contents(error):
                    raise self._unusable(error) from error
                raise
            if self.is_over or not self._is_running or not trouble.may_pass or self._left(began) <= 0:
                raise self._given_up(trouble) from error
        # Not in the handler: errors of further calls would have this one as their context, and be taken for it.
        return self._wait(after_failure or call, trouble, began)

    def once(self, call: Callable[[], _T]) -> _T:
        """Returns what a call returns that is made again by others."""
        return self._made(call, time.monotonic())

    def _made(self, call: Callable[[], _T], began: float) -> _T:
        """Makes a call that was first made at a time."""
        before, self._own.began = getattr(self._own, "began", None), began
        try:
            result = call()
        except Exception as error:
            if trouble_of(error) is not None:
                self.silent_for(time.monotonic() - began)
            raise
        finally:
            self._own.began = before
        self._silent_since = None
        return result

    def _left(self, began: float) -> float:
        """How long is still waited for a call that was first made at a time."""
        silent = self._silent_since
        return self.seconds - (time.monotonic() - (began if silent is None else min(began, silent)))

    def _wait(self, call: Callable[[], _T], trouble: Trouble, began: float) -> _T:
        wait = _FIRST_WAIT
        log.warning("%s does not answer (%s): trying again for %g s.", self._label, trouble.told, self.seconds)
        while True:
            time.sleep(min(wait, max(self._left(began), 0.0)))
            wait = min(2 * wait, _LONGEST_WAIT)
            try:
                result = self._made(call, began)
            except Exception as error:
                now = trouble_of(error)
                if now is None:
                    raise
                if not now.may_pass or self._left(began) <= 0:
                    raise self._given_up(now) from error
            else:
                log.warning("%s answers again, after %.0f s.", self._label, time.monotonic() - began)
                return result

    def _unusable(self, error: Exception) -> StudyError:
        """The error for a storage that nobody waits for: it is locked, damaged, or can only be read."""
        if not isinstance(error, OperationalError) and not isinstance(error.__cause__, OperationalError):
            return damaged(f"the storage {self._label!r}", reason_of(error))
        return StudyError(
            f"the storage {self._label!r} cannot be used: {reason_of(error)}. Check that it is whole, that nobody else "
            "has locked it, and that you may write to it."
        )

    def _given_up(self, trouble: Trouble) -> StorageAwayError:
        self.is_over = self._is_running
        if trouble.may_pass:
            seconds = self.seconds if self._is_running else self.call_seconds
            return StorageAwayError(f"{self._label} has not answered for {seconds:g} s ({trouble.told}).")
        what = "refuses the call" if isinstance(trouble, Refusal) else "cannot be written"
        return StorageAwayError(f"{self._label} {what} ({trouble.told}).")


def call_limit(most: float = CALL_SECONDS) -> float:
    """Returns how long one call may take for which a single number has to be given, in seconds.

    Args:
        most: The most that it is where a running study waits for longer.
    """
    return min(most, patience_seconds() or most)


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
        if _is_of_grpc(each):
            return _trouble_behind(each, is_whole=each is error)
        if isinstance(each, OSError):
            return Trouble(told, not isinstance(each, FileNotFoundError | PermissionError))
    return None


def _trouble_behind(error: Any, is_whole: bool) -> Trouble | None:
    """The same for an error of a gRPC proxy: it is away itself, or its own storage is, or it refuses the call.

    Args:
        error: The error.
        is_whole: Whether nobody has made another error of it. Optuna's client does so of answers.
    """
    code = error.code().name if callable(getattr(error, "code", None)) else ""
    told = f"{code}: {' '.join(str(error.details()).split())[:160]}" if code else ""
    if code in _PASSING:
        return Trouble(told, not any(words in told.lower() for words in _FOR_EVER))
    if not code or not is_whole or code in _ANSWERS:
        return None
    return Refusal(told, may_pass=False)


def _is_of_grpc(error: BaseException) -> bool:
    return type(error).__module__.startswith("grpc")


def _is_of_server(error: BaseException) -> bool:
    return any(_is_of_grpc(each) for each in _causes(error))


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
            template_trial.system_attrs = {**template_trial.system_attrs, TOKEN_ATTR: token}

        def again() -> int:
            for trial in self._target.get_all_trials(study_id, deepcopy=False):
                if trial.system_attrs.get(TOKEN_ATTR) == token:
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
        """See `studies.database.leases.LeaseTable`; whoever renews tries again by itself."""
        table: LeaseTable = self._target
        return self._patience.once(lambda: table.renew(study, owner, seconds))

    def release(self, study: str, number: int, owner: str) -> bool:
        """See `studies.database.leases.LeaseTable`: what is gone after a call that was cut short was ours."""
        table: LeaseTable = self._target
        return self._patience(
            lambda: table.release(study, number, owner),
            lambda: table.release(study, number, owner) or number not in table.held(study),
        )
