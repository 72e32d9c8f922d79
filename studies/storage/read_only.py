"""Read-only storages, and attributes that are not written: `?mode=ro`, files of other users, read-only file systems."""

from __future__ import annotations

import contextlib
import copy
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from studies.database.episodes import EpisodeTable
from studies.database.leases import LeaseTable
from studies.database.schema import SCHEMA_VERSION, newer_version, prepare, version_of
from studies.database.sqlite_connections import connect
from studies.errors import StudyError
from studies.storage.dashboard_storage import DelegatingStorage
from studies.storage.storage_url import not_opened

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study._frozen import FrozenStudy


def connector(path: Path, busy_seconds: float) -> Callable[[], sqlite3.Connection]:
    """Return a factory of read-only connections to a SQLite file.

    A database in write-ahead mode has an index in a file beside it. If that file neither exists nor can be created,
    SQLite can open the database only as `immutable`. This is correct only if the write-ahead log is empty, since it
    would be ignored.

    Args:
        path: The file.
        busy_seconds: Timeout for its lock.

    Raises:
        StudyError: If the file is not a database, or cannot be read without writing.
    """

    def open_with(options: str) -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode=ro{options}"
        return connect(uri, busy_seconds, uri=True, check_same_thread=False)

    def check(options: str) -> None:
        with contextlib.closing(open_with(options)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    try:
        check("")
    except sqlite3.OperationalError as first:
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise StudyError(
                f"the storage {str(path)!r} has changes in {log.name} beside it, which SQLite cannot read where it may "
                f"not write ({first}): copy both into a directory that is writable for you."
            ) from None
        try:
            check("&immutable=1")
        except sqlite3.Error as error:
            raise not_opened(path, error) from None
        return lambda: open_with("&immutable=1")
    except sqlite3.Error as error:
        raise not_opened(path, error) from None
    return lambda: open_with("")


def tables_of(engine: sa.Engine | None, place: str) -> tuple[EpisodeTable, LeaseTable, Callable[[], None]]:
    """Return Finder's tables of a read-only database, and a function that closes them.

    Tables that do not exist, as in databases of older versions or other programs, are empty.

    Args:
        engine: Database; None if there is none.
        place: Name of the database in error messages.

    Raises:
        StudyError: If a newer version created the tables.
    """
    version = None if engine is None else version_of(engine)
    if version is not None and version > SCHEMA_VERSION:
        raise newer_version(place, version)
    empty = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    prepare(empty, place)
    episodes = EpisodeTable(engine if engine is not None and version else empty)
    leases = LeaseTable(engine if engine is not None and version == SCHEMA_VERSION else empty)
    return episodes, leases, empty.dispose


class AttributesInMemory(DelegatingStorage):
    """Optuna storage that keeps attributes of studies in memory when they are set, instead of writing them.

    Args:
        storage: The storage.
        prefix: Prefix of the attributes that are kept in memory; others are written. Defaults to `""`: all are kept.
    """

    def __init__(self, storage: BaseStorage, prefix: str = "") -> None:
        super().__init__(storage)
        self._prefix = prefix
        self._kept: dict[tuple[str, int], dict[str, Any]] = {}

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        if key.startswith(self._prefix):
            self._kept.setdefault(("user", study_id), {})[key] = value
        else:
            self._storage.set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        if key.startswith(self._prefix):
            self._kept.setdefault(("system", study_id), {})[key] = value
        else:
            self._storage.set_study_system_attr(study_id, key, value)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return {**self._storage.get_study_user_attrs(study_id), **self._kept.get(("user", study_id), {})}

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return {**self._storage.get_study_system_attrs(study_id), **self._kept.get(("system", study_id), {})}

    def get_all_studies(self) -> list[FrozenStudy]:
        studies = [copy.copy(study) for study in self._storage.get_all_studies()]
        for study in studies:
            study.user_attrs = {**study.user_attrs, **self._kept.get(("user", study._study_id), {})}
            study.system_attrs = {**study.system_attrs, **self._kept.get(("system", study._study_id), {})}
        return studies
