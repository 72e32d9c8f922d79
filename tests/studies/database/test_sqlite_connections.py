"""Tests of connections to SQLite files: waits for a lock, and what ends them."""

from __future__ import annotations

import contextlib
import math
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studies.database import retries, sqlite_connections
from studies.database.retries import RetryPolicy
from studies.database.sqlite_connections import connect, connect_args


class AtEachWait(RetryPolicy):
    """A policy that calls a function after each wait of SQLite's, and lets the statement wait on.

    Attributes:
        n_waits: Number of waits so far.
    """

    def __init__(self, function: Callable[[int], Any]) -> None:
        super().__init__("the storage")
        self._function, self.n_waits = function, 0

    def may_wait(self, since: float) -> bool:
        self.n_waits += 1
        self._function(self.n_waits)
        return super().may_wait(since)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connections, "WAIT_SECONDS", 0.02)


@pytest.fixture(params=["wal", "delete"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={request.param}")
        connection.execute("CREATE TABLE t (n INTEGER)")
    return path


@pytest.fixture
def other(file: Path) -> Iterator[sqlite3.Connection]:
    """The connection of another process, which holds a lock or a snapshot."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


def opened(file: Path, policy: RetryPolicy | None = None, seconds: float = math.inf) -> Any:
    return contextlib.closing(sqlite3.connect(file, **connect_args(seconds, policy)))


def numbers(file: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return [number for (number,) in connection.execute("SELECT n FROM t ORDER BY n")]


@pytest.mark.parametrize("many", [False, True])
def test_statement_waits_for_the_lock_and_takes_effect_once(file: Path, other: sqlite3.Connection, many: bool) -> None:
    other.execute("BEGIN EXCLUSIVE")
    policy = AtEachWait(lambda n: other.execute("COMMIT") if n == 3 else None)
    with opened(file, policy) as own:
        if many:
            own.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        else:
            own.cursor().execute("INSERT INTO t VALUES (1), (2)")
        own.commit()
    assert policy.n_waits == 3
    assert numbers(file) == [1, 2]


@pytest.mark.parametrize("file", ["delete"], indirect=True)
def test_commit_waits_for_readers(file: Path, other: sqlite3.Connection) -> None:
    other.execute("BEGIN")
    other.execute("SELECT * FROM t").fetchall()
    policy = AtEachWait(lambda n: other.execute("COMMIT") if n == 2 else None)
    with opened(file, policy) as own:
        own.execute("INSERT INTO t VALUES (1)")
        own.commit()
    assert policy.n_waits == 2
    assert numbers(file) == [1]


def test_lock_that_is_held_longer_is_an_error_of_sqlite(file: Path, other: sqlite3.Connection) -> None:
    other.execute("BEGIN EXCLUSIVE")
    with contextlib.closing(connect(str(file), 0.05)) as own, pytest.raises(sqlite3.OperationalError, match="locked"):
        own.execute("INSERT INTO t VALUES (1)")


@pytest.mark.parametrize("file", ["wal"], indirect=True)
def test_wait_that_sqlite_refuses_is_not_repeated(file: Path, other: sqlite3.Connection) -> None:
    """A snapshot that is outdated stays outdated."""
    policy = AtEachWait(lambda _: None)
    with opened(file, policy) as own:
        own.execute("BEGIN")
        own.execute("SELECT * FROM t").fetchall()
        other.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            own.execute("INSERT INTO t VALUES (2)")
    assert policy.n_waits == 0


@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c_ends_the_wait(file: Path, other: sqlite3.Connection) -> None:
    other.execute("BEGIN EXCLUSIVE")
    policy = AtEachWait(lambda n: signal.raise_signal(signal.SIGINT) if n == 2 else None)
    with opened(file, policy) as own, pytest.raises(KeyboardInterrupt):
        own.execute("INSERT INTO t VALUES (1)")
    assert policy.n_waits == 2


def test_wait_ends_with_the_retries_of_the_call(
    file: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(retries, "INTERRUPTED_SECONDS", 0.0)

    def n_waits(change: Callable[[RetryPolicy, int], None], retry_seconds: float) -> int:
        policy = AtEachWait(lambda n: change(policy, n))
        policy.begin(retry_seconds)
        with opened(file, policy) as own, pytest.raises(sqlite3.OperationalError, match="locked"):
            own.execute("INSERT INTO t VALUES (1)")
        return policy.n_waits

    def interrupt(policy: RetryPolicy, n: int) -> None:
        """Press Ctrl-C, which takes effect after the call."""
        policy.is_interrupted = lambda: n >= 2

    def be_silent(policy: RetryPolicy, n: int) -> None:
        policy.silent_for(3600.0 if n >= 3 else 0.0)

    def end(policy: RetryPolicy, n: int) -> None:
        policy.is_over = n >= 4

    assert n_waits(interrupt, 3600.0) == 2
    assert n_waits(interrupt, 0.0) == 2  # without retries too
    assert n_waits(be_silent, 3600.0) == 3
    assert n_waits(end, 3600.0) == 4
