"""Retries of storage calls during outages: a database restart, a network failure, a full disk."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from studies.database.damage import damaged, is_content_error, reason_of
from studies.errors import StudyError
from studies.words import seconds_text

log = logging.getLogger(__name__)

_T = TypeVar("_T")

RETRY_VARIABLE = "FINDER_STORAGE_SECONDS"
"""Environment variable: seconds for which a running study retries its storage."""

RETRY_SECONDS = 300.0
"""Default of `FINDER_STORAGE_SECONDS`."""

CALL_SECONDS = 60.0
"""Seconds after which a call to a server times out and is retried."""

INTERRUPTED_SECONDS = 5.0
"""Seconds for which calls are retried after Ctrl-C."""

_FIRST_WAIT, _LONGEST_WAIT, _LOOK_SECONDS = 0.1, 5.0, 0.1
_SHORTEST_CALL, _CALL_WHEN_OVER = 0.1, 1.0

_PERMANENT = (
    "readonly database",
    "read-only",
    "no such table",
    "no such column",
    "authentication",
    "access denied",
    "permission denied",
    "does not exist",
    "was deleted or replaced",
)
"""Parts of database messages for which a retry is useless."""

_TRANSIENT = ("UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED", "INTERNAL")
"""Codes of gRPC for which a retry may succeed."""

_ANSWERS = ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION")
"""Codes of gRPC with which a storage answers: there is no such trial, or it has ended."""


class StorageAwayError(StudyError):
    """Error for a storage that has not answered during all retries, or whose answer makes retries useless."""


class TooLongError(StudyError):
    """Error for a value that is longer than the column of the database."""


class StorageFailure(NamedTuple):
    """Failure of a storage.

    Attributes:
        message: Short description.
        transient: Whether a retry may succeed.
    """

    message: str
    transient: bool


class RejectedCall(StorageFailure):
    """Permanent rejection of a call by a server: it requires a token, or does not know the call."""


class RetryPolicy:
    """Policy that retries calls to a storage during an outage.

    Args:
        label: Label of the storage.

    Attributes:
        seconds: Seconds for which calls are retried; 0, for readers, means no retries.
        is_over: Whether retries were exhausted. Later calls are not retried.
        is_interrupted: Returns whether Ctrl-C was pressed that takes effect after the call, because it is deferred.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._is_running = False
        self._silent_since: float | None = None
        self._handled_before: BaseException | None = None
        self._own = threading.local()  # first attempt of the current call of each thread
        self.seconds = 0.0
        self.is_over = False
        self.is_interrupted: Callable[[], bool] = lambda: False

    def begin(self, seconds: float) -> None:
        """Retry calls from now on, since this process runs a study."""
        self._is_running, self.seconds, self.is_over, self._silent_since = True, seconds, False, None
        self._handled_before = sys.exc_info()[1]  # a script may run a study after Ctrl-C, in its handler

    @property
    def call_seconds(self) -> float:
        """Timeout of a server call that this thread makes now, so that it ends within the time of the retries."""
        if self.is_over:
            return _CALL_WHEN_OVER
        if not self._is_running:
            return min(CALL_SECONDS, retry_seconds() or CALL_SECONDS)
        if self.seconds <= 0:
            return CALL_SECONDS
        began = getattr(self._own, "began", None) or time.monotonic()
        return min(CALL_SECONDS, max(self._seconds_left(began), _SHORTEST_CALL))

    def may_wait(self, since: float) -> bool:
        """Return whether a call of this thread may go on waiting: the time of its retries is not over.

        Args:
            since: Time (`time.monotonic`) at which the call began to wait, unless it is an attempt of a retried call.
        """
        if self.is_over:
            return False
        began = getattr(self._own, "began", None) or since
        if self.seconds > 0:
            return self._seconds_left(began) > 0
        return not self._is_ending or time.monotonic() - began < INTERRUPTED_SECONDS

    @property
    def silence_seconds(self) -> float:
        """Seconds for which a database server may remain silent during a call.

        Processes that run no study may make long calls: deleting a study, or migrating tables.
        """
        return self.call_seconds if self._is_running else max(retry_seconds(), CALL_SECONDS)

    def silent_for(self, seconds: float) -> None:
        """Record that a call started this many seconds ago was not answered; all threads count retries from there."""
        since = time.monotonic() - seconds
        self._silent_since = since if self._silent_since is None else min(self._silent_since, since)

    def __call__(self, call: Callable[[], _T], after_failure: Callable[[], _T] | None = None) -> _T:
        """Return the result of a call, retrying it during an outage.

        Args:
            call: Call.
            after_failure: Call to make instead after an interrupted attempt, which may or may not have taken effect.

        Raises:
            StorageAwayError: If the outage lasts, or a server rejects the call.
            StudyError: If the storage is damaged, or this process runs no study and the storage cannot be used.
            Exception: Any other error of the call.
        """
        try:
            return self._retried(call, after_failure)
        except KeyboardInterrupt:
            self.is_over = self.is_over or (self._is_running and self._silent_since is not None)
            raise

    def _retried(self, call: Callable[[], _T], after_failure: Callable[[], _T] | None) -> _T:
        began, handled = time.monotonic(), sys.exc_info()[1]
        try:
            return self._attempt(call, began)
        except Exception as error:
            failure = storage_failure(error, handled)
            if failure is None or not (self._is_running or _is_of_server(error, handled)):
                if is_content_error(error):
                    raise self._unusable_error(error) from error
                raise
            if self.is_over or not self._is_running or not failure.transient or self._seconds_left(began) <= 0:
                raise self._final_error(failure, began) from error
        # Outside the handler: errors of further attempts would otherwise have this one as their context.
        return self._wait(after_failure or call, failure, began)

    def once(self, call: Callable[[], _T]) -> _T:
        """Return the result of a call that its caller repeats."""
        return self._attempt(call, time.monotonic())

    def _attempt(self, call: Callable[[], _T], began: float) -> _T:
        """Make one attempt of a call whose first attempt was at `began`."""
        before, self._own.began = getattr(self._own, "began", None), began
        handled = sys.exc_info()[1]
        try:
            result = call()
        except Exception as error:
            if storage_failure(error, handled) is not None:
                self.silent_for(time.monotonic() - began)
            raise
        except KeyboardInterrupt:
            if (seconds := time.monotonic() - began) > INTERRUPTED_SECONDS:  # a server that hangs, or a locked file
                self.silent_for(seconds)
            raise
        finally:
            self._own.began = before
        self._silent_since = None
        return result

    def _seconds_left(self, began: float) -> float:
        """Return the remaining seconds for retries of a call whose first attempt was at `began`."""
        seconds = min(self.seconds, INTERRUPTED_SECONDS) if self._is_ending else self.seconds
        return seconds - self._seconds_silent(began)

    def _seconds_silent(self, began: float) -> float:
        """Return the seconds since the storage answered last, or since a call's first attempt at `began`."""
        silent = self._silent_since
        return time.monotonic() - (began if silent is None else min(began, silent))

    @property
    def _is_ending(self) -> bool:
        """Return whether Ctrl-C was pressed, so that calls are retried for a short time only."""
        handled = sys.exc_info()[1]
        return self.is_interrupted() or (
            handled is not None and interrupt_of(handled, self._handled_before) is not None
        )

    def _sleep(self, seconds: float, began: float) -> None:
        """Sleep, but not longer than calls are retried."""
        until = time.monotonic() + seconds
        while (left := min(until - time.monotonic(), self._seconds_left(began))) > 0:
            time.sleep(min(left, _LOOK_SECONDS))

    def _wait(self, call: Callable[[], _T], failure: StorageFailure, began: float) -> _T:
        wait, handled = _FIRST_WAIT, sys.exc_info()[1]
        seconds = seconds_text(max(self._seconds_left(began), 0.0))
        log.warning("%s does not answer (%s): trying again for %s.", self._label, failure.message, seconds)
        while True:
            self._sleep(wait, began)
            wait = min(2 * wait, _LONGEST_WAIT)
            try:
                result = self._attempt(call, began)
            except Exception as error:
                now = storage_failure(error, handled)
                if now is None:
                    raise
                if not now.transient or self._seconds_left(began) <= 0:
                    raise self._final_error(now, began) from error
            else:
                log.warning("%s answers again, after %s.", self._label, seconds_text(time.monotonic() - began))
                return result

    def _unusable_error(self, error: Exception) -> StudyError:
        """Return the error for a value that is too long, or a storage that is locked, damaged, or read-only."""
        reason, kinds = reason_of(error), (error, error.__cause__)
        if any(isinstance(each, DataError) for each in kinds) and "too long" in reason.lower():
            remedy = (
                " Texts have at most 65,535 bytes in MySQL: use SQLite or PostgreSQL, or make the column that is named "
                "here a MEDIUMTEXT."
            )
            is_mysql = "1406" in reason  # its code of this error
            return TooLongError(
                f"a value is too long for the storage {self._label!r} ({reason}).{remedy if is_mysql else ''}"
            )
        if not any(isinstance(each, OperationalError) or refuses_writes(getattr(each, "orig", None)) for each in kinds):
            return damaged(f"the storage {self._label!r}", reason)
        return StudyError(
            f"the storage {self._label!r} cannot be used: {reason}. Check that it is intact, that no other "
            "process has locked it, and that it is writable."
        )

    def _final_error(self, failure: StorageFailure, began: float) -> StorageAwayError:
        """Return the error of a call whose first attempt was at `began`."""
        self.is_over = self._is_running
        if failure.transient:
            seconds = seconds_text(self._seconds_silent(began))
            return StorageAwayError(f"{self._label} has not answered for {seconds} ({failure.message}).")
        what = "rejects the call" if isinstance(failure, RejectedCall) else "cannot be written"
        return StorageAwayError(f"{self._label} {what} ({failure.message}).")


def call_limit(most: float = CALL_SECONDS) -> float:
    """Return the timeout of a call in seconds, where a single number has to be given.

    Args:
        most: Upper limit.
    """
    return min(most, retry_seconds() or most)


def retry_seconds() -> float:
    """Return the seconds for which a running study retries its storage.

    Raises:
        StudyError: If the environment variable is not a number of seconds.
    """
    text = os.environ.get(RETRY_VARIABLE, "")
    if not text:
        return RETRY_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StudyError(f"{RETRY_VARIABLE} is {text!r}: give seconds, from 0 (do not wait).")
    return seconds


def storage_failure(error: BaseException, handled: BaseException | None = None) -> StorageFailure | None:
    """Return the storage failure that an error describes; None for other errors.

    Args:
        error: Error of a call.
        handled: Exception that was being handled when the call was made, such as a missing file of the user's: it is
            the context of every error of the call, but not its cause.
    """
    for each in _causes(error, handled):
        message = " ".join(str(getattr(each, "orig", None) or each).split())[:200]
        if isinstance(each, DBAPIError):
            replaced = refuses_writes(each.orig)  # by another server, to which the next connection is
            if replaced or each.connection_invalidated or isinstance(each, OperationalError | InterfaceError):
                return StorageFailure(message, replaced or not any(words in message.lower() for words in _PERMANENT))
            return None
        if isinstance(each, PoolTimeoutError):
            return StorageFailure(message, transient=True)
        if _is_of_grpc(each):
            return _proxy_failure(each, is_whole=each is error)
        if isinstance(each, OSError):
            return StorageFailure(message, not isinstance(each, FileNotFoundError | PermissionError))
    return None


def interrupt_of(error: BaseException, handled: BaseException | None = None) -> KeyboardInterrupt | None:
    """Return the interrupt (Ctrl-C) that an error is, or during whose handling it was raised; None for others.

    Args:
        error: Error.
        handled: Exception that was being handled before, of which the error is independent.
    """
    return next((each for each in _causes(error, handled) if isinstance(each, KeyboardInterrupt)), None)


def refuses_writes(error: BaseException | None) -> bool:
    """Return whether a database server answered that it accepts no writes, as a primary does after a failover."""
    if getattr(error, "sqlstate", None) == "25006":  # PostgreSQL
        return True
    code, *rest = error.args if error is not None and error.args else (None,)
    return code in (1290, 1836) and "read" in str(rest).lower()  # MySQL, MariaDB


def _proxy_failure(error: Any, is_whole: bool) -> StorageFailure | None:
    """Return the failure that an error of a gRPC proxy describes: of the proxy, of its storage, or a rejected call.

    Args:
        error: Error.
        is_whole: Whether the error is unwrapped. Optuna's client wraps answers.
    """
    code = error.code().name if callable(getattr(error, "code", None)) else ""
    message = f"{code}: {' '.join(str(error.details()).split())[:160]}" if code else ""
    if code in _TRANSIENT:
        return StorageFailure(message, not any(words in message.lower() for words in _PERMANENT))
    if not code or not is_whole or code in _ANSWERS:
        return None
    return RejectedCall(message, transient=False)


def _is_of_grpc(error: BaseException) -> bool:
    return type(error).__module__.startswith("grpc")


def _is_of_server(error: BaseException, handled: BaseException | None) -> bool:
    return any(_is_of_grpc(each) for each in _causes(error, handled))


def _causes(error: BaseException, handled: BaseException | None = None) -> Iterator[BaseException]:
    each: BaseException | None = error
    seen: set[int] = set()  # an interrupt that is raised again has errors of its handling as context
    while each is not None and each is not handled and id(each) not in seen:
        yield each
        seen.add(id(each))
        each = each.__cause__ or each.__context__
