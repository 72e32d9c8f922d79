"""Connections to SQLite files whose waits for a lock end with Ctrl-C.

SQLite waits inside a single call, during which Python handles no signal. These connections let it wait for a short time
only, and repeat the statement until their own timeout. Which waits can succeed is left to SQLite: it refuses those that
would be in vain (a deadlock, an outdated snapshot) at once, and these are not repeated.
"""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import sqlalchemy as sa

if TYPE_CHECKING:
    from studies.database.retries import RetryPolicy

_T = TypeVar("_T")

WAIT_SECONDS = 1.0
"""Most seconds for which SQLite itself waits; Ctrl-C is noticed after that."""

_PRIMARY_CODE = 0xFF


def connect(database: str, seconds: float, **options: Any) -> sqlite3.Connection:
    """Open a connection that waits for locks for up to `seconds`.

    Args:
        database: File or URI.
        seconds: Timeout.
        **options: Further arguments of `sqlite3.connect`.
    """
    opened: sqlite3.Connection = sqlite3.connect(database, **options, **connect_args(seconds))
    return opened


def connect_args(seconds: float, retry_policy: RetryPolicy | None = None) -> dict[str, Any]:
    """Return arguments of `sqlite3.connect` with which connections wait for locks for up to `seconds`.

    Args:
        seconds: Timeout.
        retry_policy: Policy of the calls that are made with the connection: waits end with its retries. Defaults to
            `None`.
    """

    def factory(*args: Any, **kwargs: Any) -> InterruptibleConnection:
        opened = InterruptibleConnection(*args, **kwargs)
        opened.lock_seconds, opened.retry_policy = seconds, retry_policy
        return opened

    return {"timeout": min(seconds, WAIT_SECONDS), "factory": factory}


def tune_sqlite(engine: sa.Engine) -> None:
    """Open all further connections of a database in write-ahead mode; see `studies.storage.storage.open_storage`."""

    @sa.event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()


class InterruptibleConnection(sqlite3.Connection):
    """Connection that repeats statements while another process holds a lock.

    Attributes:
        lock_seconds: Seconds for which a statement waits for a lock.
        retry_policy: Policy of the calls, whose end also ends the wait; None without one.
    """

    lock_seconds = WAIT_SECONDS
    retry_policy: RetryPolicy | None = None

    def cursor(self, factory: Any = None) -> Any:
        """See `sqlite3.Connection`."""
        return super().cursor(factory or _Cursor)

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        return self.wait_for_locks(functools.partial(super().execute, *args))

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        return self.wait_for_locks(functools.partial(super().executemany, *args))

    def commit(self) -> None:
        """See `sqlite3.Connection`."""
        self.wait_for_locks(super().commit)

    def wait_for_locks(self, call: Callable[[], _T]) -> _T:
        """Return the result of a call; repeat it while SQLite waits for a lock in vain, until the timeout."""
        began = time.monotonic()
        while True:
            attempted = time.monotonic()
            try:
                return call()
            except sqlite3.OperationalError as error:
                if not self._goes_on(error, began, attempted):
                    raise

    def _goes_on(self, error: sqlite3.OperationalError, began: float, attempted: float) -> bool:
        """Return whether to wait on after an attempt."""
        now, code = time.monotonic(), getattr(error, "sqlite_errorcode", None)  # None in errors of Python's module
        if code is None or code & _PRIMARY_CODE != sqlite3.SQLITE_BUSY:
            return False
        if now - attempted < min(self.lock_seconds, WAIT_SECONDS) / 2:  # SQLite has not waited; signals shorten waits
            return False
        policy = self.retry_policy
        return now - began < self.lock_seconds and (policy is None or policy.may_wait(began))


class _Cursor(sqlite3.Cursor):
    """Cursor whose statements wait for locks."""

    def execute(self, *args: Any) -> _Cursor:
        """See `sqlite3.Cursor`."""
        return self._wait_for_locks(functools.partial(super().execute, *args))

    def executemany(self, *args: Any) -> _Cursor:
        """See `sqlite3.Cursor`."""
        return self._wait_for_locks(functools.partial(super().executemany, *args))

    def _wait_for_locks(self, call: Callable[[], sqlite3.Cursor]) -> _Cursor:
        cast("InterruptibleConnection", self.connection).wait_for_locks(call)
        return self
