"""Detection of a storage file that was deleted or replaced while a study is running.

A process can go on writing to a deleted file that it has open: every write would succeed, and nothing would be stored.
A file is identified by its device and inode.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import get_lock_file

from studies.errors import StudyError

if TYPE_CHECKING:
    import sqlalchemy as sa

_BUSY_MILLISECONDS = 2_000

_BLOCK = 1 << 12
"""Bytes that are read at once in the search for the end of the last complete line."""


class FileReplacedError(FileNotFoundError):
    """Error for a storage file that is not the one that was opened."""


class WatchedFile:
    """File that must not be deleted or replaced while a study is running.

    Args:
        path: The file.

    Attributes:
        path: Its absolute path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._identity: tuple[int, int] | None = None
        self._rescued: Path | None = None

    def watch(self) -> None:
        """Record the identity of the file, for later calls of `check`."""
        self._identity = self._identity or self._found()

    def check(self, rescue: Callable[[Path], None] | None = None) -> None:
        """Check that the file exists and is the same.

        Args:
            rescue: Writes the contents of the opened file to another path, if possible.

        Raises:
            FileReplacedError: If the file was deleted or replaced.
        """
        if self._identity is None or self._identity == self._found():
            return
        if rescue is not None and self._rescued is None:
            place = self._free_place()
            with contextlib.suppress(sqlite3.Error, OSError):
                rescue(place)
                self._rescued = place
        where = f"its contents are in {self._rescued.name} beside it" if self._rescued else "its contents are lost"
        raise FileReplacedError(f"{self.path.name} was deleted or replaced while the study ran; {where}")

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _free_place(self) -> Path:
        places = (self.path.with_name(f"{self.path.stem}-rescued-{n}{self.path.suffix}") for n in range(1, 1_000))
        return next(place for place in places if not place.exists())


def check_connections(engine: sa.Engine, file: WatchedFile) -> None:
    """Check the file of a SQLite database before each connection and each transaction."""
    from sqlalchemy import event

    @event.listens_for(engine, "do_connect")
    def before_connecting(*_: Any) -> None:
        file.check()

    @event.listens_for(engine, "begin")
    def before_transaction(connection: sa.Connection) -> None:
        opened: Any = connection.connection.driver_connection
        file.check(lambda place: _copy_unlinked(opened, place))


class WatchedJournal(JournalFileBackend):
    """Journal whose file is checked before each read and each write, and has complete lines only.

    Optuna's leaves the beginning of a line after a full disk or a power cut. It would append to that line, and could
    not read the file from then on.

    Args:
        path: The file.
        file: The file, watched.
    """

    def __init__(self, path: Path, file: WatchedFile) -> None:
        super().__init__(str(path.absolute()))  # the lock is a symbolic link to this path
        self._file = file

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        self._file.check()
        return super().read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._file.check()
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        # Unbuffered: a buffer would write its rest when the file is closed after an error.
        with get_lock_file(self._lock), open(self._file_path, "r+b", buffering=0) as file:
            size = _cut_incomplete_line(file)
            try:
                left = memoryview(lines)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)
                raise


class ReadJournal(JournalFileBackend):
    """Read-only journal.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path.absolute()))

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Reject the write; see `JournalFileBackend`."""
        raise StudyError(f"the storage {self._file_path!r} can only be read: copy it to a place where you may write.")


def _cut_incomplete_line(file: BinaryIO) -> int:
    """Cut the file back to its last complete line, go to its end, and return its size."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(end - _BLOCK, 0)
        file.seek(begin)
        if found := file.read(end - begin).rfind(b"\n") + 1:
            end = begin + found
            break
        end = begin
    if end < size:
        file.truncate(end)
    return file.seek(end)


def _copy_unlinked(opened: sqlite3.Connection, place: Path) -> None:
    """Copy a database that lost its name, and empty its write-ahead log.

    The log kept its name, and SQLite would apply it to the file that replaced the database.
    """
    with contextlib.closing(sqlite3.connect(place)) as copy:
        opened.backup(copy)
    opened.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
