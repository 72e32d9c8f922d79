"""Opening of storages: Optuna's storage and Finder's tables beside it, from a URL."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, NoSuchModuleError, OperationalError, ProgrammingError, SQLAlchemyError

from studies.database.damage import damaged, reason_of
from studies.database.episodes import EpisodeTable
from studies.database.fencing import LockedStorage, check_transactions
from studies.database.leases import LeaseTable
from studies.database.retries import RetryPolicy, refuses_writes
from studies.database.retrying import RetryingStorage, RetryingTable
from studies.database.schema import prepare
from studies.database.sqlite_connections import connect, connect_args, tune_sqlite
from studies.database.trial_writes import OptunaTrialWrites, SqlTrialWrites, TrialWrites
from studies.errors import StudyError
from studies.storage.read_only import connector, tables_of
from studies.storage.server_timeouts import options_of_server, session_timeouts
from studies.storage.sqlite_url import url_of_path
from studies.storage.storage_url import (
    StorageAddress,
    check_file,
    lock_timeout,
    not_opened,
    parse_storage_url,
    why_read_only,
)
from studies.storage.watched_file import WatchedFile, check_connections

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from studies.database.names import StudyNames

_TRIES = 3

_SERVED_TABLE = "finder_served"
"""Table whose presence marks a SQLite file that was served. Versions that do not know it leave it alone."""

_DRIVERS = {
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
}
"""Module of a database driver -> requirement that installs it."""


@dataclass(slots=True, kw_only=True)
class StudyStorage:
    """Open storage. A context manager; closing it twice is harmless.

    Attributes:
        url: URL it was opened from, which may contain a password.
        label: URL for messages, without a password.
        optuna: Optuna storage.
        episodes: Table of episodes.
        leases: Table of leases.
        trial_writes: Writes of several values at once to running trials.
        retry_policy: Retries of its calls during an outage; none unless a study is run.
        shared: Whether several processes may run a study in it. A SQLite or journal file accepts one process at a time.
        names: Names of its studies; None if they cannot be changed: in memory, in journals, or if it is read-only.
        files: Files that must not be replaced while a study is running.
        why_read_only: Reason why it is read-only; empty if it is writable.
    """

    url: str = field(repr=False)
    label: str
    optuna: BaseStorage
    episodes: EpisodeTable
    leases: LeaseTable
    trial_writes: TrialWrites
    retry_policy: RetryPolicy
    shared: bool
    names: StudyNames | None = None
    files: Sequence[WatchedFile] = ()
    why_read_only: str = ""
    _closers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def foreign(self) -> bool:
        """Return whether other users may have written its contents: unless it is a file of this user, never served."""
        path = parse_storage_url(self.url).path
        return self.shared or (path is not None and path.stat().st_uid != os.geteuid()) or self.was_served

    @property
    def why_foreign(self) -> str:
        """Return the reason why other users may have written its contents, for errors."""
        if self.was_served:
            return "others could write to its file while finder serve served it"
        return "others may write to its storage"

    @property
    def was_served(self) -> bool:
        """Return whether it is a SQLite file that `studies.servers.proxy` has ever served."""
        address = parse_storage_url(self.url)
        if address.kind != "sqlite" or address.path is None:
            return False
        with contextlib.closing(connector(address.path, lock_timeout(address))()) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_SERVED_TABLE,)).fetchone()
        return found is not None

    def mark_served(self) -> None:
        """Record permanently in a SQLite file that it is served: others may write to it from now on.

        Raises:
            StudyError: If the file cannot be written.
        """
        address = parse_storage_url(self.url)
        if address.kind != "sqlite" or address.path is None or self.why_read_only:
            return
        try:
            with contextlib.closing(connect(str(address.path), lock_timeout(address))) as connection:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {_SERVED_TABLE} (mark INTEGER PRIMARY KEY)")
        except sqlite3.Error as error:
            raise not_opened(address.path, error) from None

    def start_run(self, retry_seconds: float) -> None:
        """Prepare for running a study: retry calls during outages, and watch the files.

        Raises:
            StudyError: If the storage is read-only.
        """
        self.require_writable()
        self.retry_policy.begin(retry_seconds)
        for file in self.files:
            file.watch()

    def require_writable(self) -> None:
        """Raise an error if the storage is read-only.

        Raises:
            StudyError: If the storage is read-only.
        """
        if self.why_read_only:
            raise StudyError(
                f"the storage {self.label!r} can only be read ({self.why_read_only}): copy it to a place where you may "
                "write."
            )

    def close(self) -> None:
        """Close all database connections."""
        while self._closers:
            self._closers.pop()()

    def __enter__(self) -> StudyStorage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_storage(url: str | os.PathLike[str], *, create: bool = True) -> StudyStorage:
    """Open a storage, and create it and its tables if they do not exist.

    SQLite files use write-ahead mode, in which readers such as the dashboard never block the study, and wait up to 30
    seconds for a lock. `synchronous=NORMAL` syncs at checkpoints instead of at every commit: a killed process loses
    nothing, a power cut may lose the last moments but never damages the file. `synchronous_commit=off` is the same
    compromise for PostgreSQL.

    Args:
        url: The URL, or the path of a file; see `studies.storage.storage_url.parse_storage_url`.
        create: Whether a missing file is created. Defaults to `True`. With `False`, for readers, a read-only file is
            accepted too.

    Returns:
        The open storage. Episodes of a journal are in `<journal>.episodes.db`, those of `memory` in memory.

    Raises:
        StudyError: If the storage cannot be opened; gives the reason and what to do.
    """
    address = parse_storage_url(url)
    check_file(address, create)
    try:
        if address.kind == "memory":
            return _open_memory(address)
        if address.kind == "journal":
            return _open_journal(address)
        if address.kind == "proxy":
            return _open_proxy(address)
        return _open_sql(address)
    except StudyError:
        raise
    except NoSuchModuleError as error:
        raise StudyError(f"the storage {address.label!r} names an unknown database driver: {error}") from None
    except ImportError as error:
        raise StudyError(_missing_driver(address, error)) from None
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StudyError(
            f"the storage {address.label!r} cannot be opened: {reason_of(error)}. Check that it exists, that no other "
            "process has locked it, and that it is writable."
        ) from error
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # Optuna: tables of another version of Optuna, a journal with broken lines.
        raise StudyError(f"the storage {address.label!r} cannot be used: {reason_of(error)}") from error


def _open_memory(address: StorageAddress) -> StudyStorage:
    from optuna.storages import InMemoryStorage

    # One shared connection: each new one would open its own empty database.
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    locked = cast("BaseStorage", LockedStorage(InMemoryStorage(), engine))
    return _storage(address, locked, _tables(engine, address.label), [engine.dispose])


def _open_proxy(address: StorageAddress) -> StudyStorage:
    from studies.storage.proxy_client import Proxy

    scheme, _, place = address.url.partition("://")
    host, _, port = place.rpartition(":")
    retry_policy = RetryPolicy(address.label)
    proxy = Proxy(host, int(port), retry_policy, tls=scheme == "grpcs")
    tables = proxy.episodes, proxy.leases
    return _storage(address, proxy.optuna, tables, [proxy.close], retry_policy=retry_policy, names=proxy.names)


def _tables(engine: sa.Engine, label: str) -> tuple[EpisodeTable, LeaseTable]:
    """Return Finder's tables in a database, which are created if they do not exist."""
    prepare(engine, label)
    check_transactions(engine)
    return EpisodeTable(engine), LeaseTable(engine)


def _storage_for_reading(
    address: StorageAddress, optuna_storage: BaseStorage, engine: sa.Engine | None, closers: list[Callable[[], None]]
) -> StudyStorage:
    """Return a read-only storage; its own tables are in a database, or do not exist."""
    episodes, leases, close = tables_of(engine, address.label)
    closers = [*closers, close]
    return _storage(address, optuna_storage, (episodes, leases), closers, why_read_only=why_read_only(address))


def _storage(
    address: StorageAddress,
    optuna_storage: BaseStorage,
    tables: tuple[EpisodeTable, LeaseTable],
    closers: list[Callable[[], None]],
    *,
    retry_policy: RetryPolicy | None = None,
    names: StudyNames | None = None,
    trial_writes: TrialWrites | None = None,
    files: Sequence[WatchedFile] = (),
    why_read_only: str = "",
) -> StudyStorage:
    """Return a storage whose calls are retried; it writes to trials through Optuna unless `trial_writes` is given."""
    retry_policy = retry_policy or RetryPolicy(address.label)
    optuna = cast("BaseStorage", RetryingStorage(optuna_storage, retry_policy))

    def retrying(table: object) -> Any:
        return RetryingTable(table, retry_policy)

    return StudyStorage(
        url=address.url,
        label=address.label,
        optuna=optuna,
        episodes=retrying(tables[0]),
        leases=retrying(tables[1]),
        trial_writes=OptunaTrialWrites(optuna) if trial_writes is None else retrying(trial_writes),
        retry_policy=retry_policy,
        shared=address.kind in ("server", "proxy"),
        names=None if names is None else retrying(names),
        files=files,
        why_read_only=why_read_only,
        _closers=closers,
    )


def _open_journal(address: StorageAddress) -> StudyStorage:
    from optuna.storages import JournalStorage

    from studies.storage.watched_file import ReadJournal, WatchedJournal

    path = address.path
    assert path is not None
    beside = Path(f"{path}.episodes.db")
    place = StorageAddress("sqlite", url_of_path("sqlite", beside), beside, str(beside))
    if why_read_only(address):
        read = JournalStorage(ReadJournal(path))
        if not beside.exists():
            return _storage_for_reading(address, read, None, [])
        engine = sa.create_engine("sqlite://", creator=connector(beside, lock_timeout(place)), poolclass=sa.QueuePool)
        return _storage_for_reading(address, read, engine, [engine.dispose])
    journal = WatchedFile(path)
    optuna_storage = JournalStorage(WatchedJournal(path, journal))
    check_file(place, create=True)
    retry_policy = RetryPolicy(address.label)
    engine = sa.create_engine(place.url, connect_args=connect_args(lock_timeout(place), retry_policy))
    tune_sqlite(engine)
    episodes = WatchedFile(beside)
    check_connections(engine, episodes)
    locked = cast("BaseStorage", LockedStorage(optuna_storage, engine))
    tables, files = _tables(engine, address.label), (journal, episodes)
    return _storage(address, locked, tables, [engine.dispose], retry_policy=retry_policy, files=files)


def _open_sql(address: StorageAddress) -> StudyStorage:
    """Open a database; retry if several processes create its tables at the same time."""
    for left in reversed(range(_TRIES)):
        try:
            return _connect(address)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            is_duplicate = isinstance(error, IntegrityError) or "already exists" in str(error)
            made_meanwhile = is_duplicate or address.kind != "sqlite"
            if not left or not made_meanwhile:
                raise
            time.sleep(random.uniform(0.1, 0.5))
    raise AssertionError


def _connect(address: StorageAddress) -> StudyStorage:
    from optuna.exceptions import StorageInternalError
    from optuna.storages import get_storage

    from studies.database.names import StudyNames
    from studies.storage.quick_storage import QuickStorage

    sqlite = address.kind == "sqlite"
    if address.path is not None and why_read_only(address):
        options: dict[str, Any] = {"creator": connector(address.path, lock_timeout(address))}
        rdb = QuickStorage("sqlite:///read-only.db", engine_kwargs={**options, "poolclass": sa.QueuePool})
        closers = [rdb.engine.dispose, rdb.remove_session]
        return _storage_for_reading(address, get_storage(rdb), rdb.engine, closers)
    retry_policy = RetryPolicy(address.label)
    if sqlite:
        options = {"connect_args": connect_args(lock_timeout(address), retry_policy)}
    else:
        options = options_of_server(address.url, retry_policy)
    try:
        rdb = QuickStorage(address.url, engine_kwargs=options)
    except StorageInternalError as error:  # of Optuna, which reads the version of its tables
        cause = error.__cause__ or error
        if sqlite and isinstance(cause, sa.exc.DatabaseError) and not isinstance(cause, OperationalError):
            raise damaged(f"the storage {address.label!r}", reason_of(cause)) from error
        raise cause from None
    try:
        # Optuna connected while it created its tables: the pool is emptied, so that all connections have the settings.
        rdb.engine.dispose()
        if sqlite:
            tune_sqlite(rdb.engine)
        else:
            _tune_server(rdb.engine)
        # get_storage adds Optuna's cache of finished trials; all studies share this storage.
        files = [WatchedFile(address.path)] if address.path is not None else []
        for file in files:
            check_connections(rdb.engine, file)
        cached = get_storage(rdb)
        tables, closers = _tables(rdb.engine, address.label), [rdb.engine.dispose, rdb.remove_session]
        names, writes = StudyNames(rdb.engine, cached), SqlTrialWrites(rdb.engine)
        return _storage(
            address, cached, tables, closers, retry_policy=retry_policy, names=names, trial_writes=writes, files=files
        )
    except BaseException:
        rdb.engine.dispose()
        raise


def _tune_server(engine: sa.Engine) -> None:
    settings = session_timeouts(engine)
    if engine.dialect.name == "postgresql":
        # Commits do not wait for the disk: only a crash of the server itself may lose the last half second.
        settings.append("SET synchronous_commit TO OFF")
        # All rows in one statement instead of a pipeline, to which the timeout of idle transactions does not apply.
        engine.dialect.use_insertmanyvalues_wo_returning = True

    @sa.event.listens_for(engine, "handle_error")
    def reconnect_after_failover(context: sa.ExceptionContext) -> None:
        if refuses_writes(context.original_exception):
            context.is_disconnect = True  # all connections of the pool are to the same server

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(setting)
        cursor.close()
        connection.commit()


def _missing_driver(address: StorageAddress, error: ImportError) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    module = (cause.name or "").partition(".")[0]
    how = f"pip install {_DRIVERS.get(module, module) or 'the driver of that database'}"
    return f"the storage {address.label!r} needs the driver {module or str(error)!r}, which is not installed: {how}."
