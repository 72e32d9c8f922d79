"""What a person writes after `--storage`, taken apart and checked before anything is created."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError, nearest
from studies.redaction import redacted

_SQLITE_HEADER = b"SQLite format 3\x00"
_BUSY_SECONDS = 30
_SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_JOURNAL_SUFFIXES = (".log", ".jsonl", ".journal")
_EXAMPLES = (
    "finder.db or sqlite:///finder.db (a file), memory, journal:///finder.log, "
    "postgresql+psycopg://user:password@host/database, mysql+pymysql://user:password@host/database, "
    "grpc://host:13000 (finder serve; grpcs:// with --tls-cert)"
)
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""A URL that names no driver means the one that our extras install, not SQLAlchemy's own choice."""

DEFAULT_PORT = 13_000
"""The port of Optuna's gRPC proxy."""

_SCHEMES = ("sqlite", "journal", "memory", "postgresql", "mysql", "mariadb", "grpc", "grpcs")


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """Where a storage is.

    Attributes:
        kind: How it is opened.
        url: The SQLAlchemy URL, or the journal's URL, or `memory`. May hold a password.
        path: The file, for SQLite files and journals; otherwise None.
        label: The URL for people, without a password.
    """

    kind: Literal["memory", "sqlite", "journal", "server", "proxy"]
    url: str = field(repr=False)
    path: Path | None
    label: str


def parse_storage_url(url: str) -> StorageAddress:
    """Takes a storage's URL or path apart.

    Args:
        url: `memory`; a SQLAlchemy URL (one without a driver means psycopg or PyMySQL); `journal:///file.log` (four
            slashes for an absolute path, as SQLite's URLs have it); a path ending in .db, .sqlite or .sqlite3 (SQLite)
            or in .log, .jsonl or .journal (journal); `grpc://host:port` of a server that `finder serve` started
            (`grpcs://` where it has a certificate).

    Raises:
        StudyError: If it is none of these.
    """
    if not isinstance(url, str) or not url.strip():
        raise StudyError(f"the storage is {url!r}: give one of {_EXAMPLES}.")
    url = url.strip()
    if url in ("memory", "memory://", "sqlite://", "sqlite:///:memory:"):
        return StorageAddress("memory", "memory", None, "memory")
    return _url_address(url) if "://" in url else _path_address(url)


def default_label() -> str:
    """Returns the label of the storage that commands use which are given none: that of `OPTUNA_STORAGE`, or our own."""
    exported = os.environ.get("OPTUNA_STORAGE", DEFAULT_STORAGE)
    try:
        return parse_storage_url(exported).label
    except StudyError:
        return redacted(exported)


def _url_address(url: str) -> StorageAddress:
    given, _, location = url.partition("://")
    scheme = given.partition("+")[0].lower()
    if scheme not in _SCHEMES:
        raise StudyError(
            f"the storage scheme {scheme!r} is unknown. {nearest(scheme, _SCHEMES)} For example {_EXAMPLES}."
        )
    if scheme == "journal":
        location = location.removeprefix("/")
        if not location:
            raise StudyError(f"the storage {url!r} names no file: write journal:///finder.log.")
        return StorageAddress("journal", url, Path(location), url)
    if scheme in ("grpc", "grpcs"):
        return _proxy_address(scheme, location)
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StudyError(f"the storage URL cannot be read ({error}): give one of {_EXAMPLES}.") from None
    label = redacted(parsed.render_as_string(hide_password=True))
    if scheme != "sqlite":
        url = f"{_DRIVERS.get(given.lower(), given)}://{location}"
        return StorageAddress("server", url, None, label)
    if not parsed.database:
        raise StudyError(f"the storage {url!r} names no file: write sqlite:///finder.db.")
    # A database that begins with "file:" is SQLite's own URI, whose options (mode=ro, ...) only SQLite understands.
    file = None if parsed.database.startswith("file:") else Path(parsed.database)
    return StorageAddress("sqlite", url, file, label)


def _path_address(url: str) -> StorageAddress:
    path = Path(url).expanduser()
    if path.suffix in _SQLITE_SUFFIXES:
        return StorageAddress("sqlite", f"sqlite:///{path}", path, str(path))
    if path.suffix in _JOURNAL_SUFFIXES:
        return StorageAddress("journal", f"journal:///{path}", path, str(path))
    if "@" in url:  # what stands before it may be a password
        raise StudyError(f"the storage has an @ but no scheme: give one of {_EXAMPLES}.")
    raise StudyError(f"the storage {url!r} is no URL and has no known ending: give one of {_EXAMPLES}.")


def _proxy_address(scheme: str, location: str) -> StorageAddress:
    """The address of a gRPC proxy; one without a port means the usual one."""
    if "@" in location:  # what stands before it may be a secret, which every process list would show
        raise StudyError(f"an address of a proxy holds no token: set FINDER_TOKEN, and write {scheme}://host:port.")
    host, _, port = location.rstrip("/").partition(":")
    port = port or str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise StudyError(
            f"the storage '{scheme}://{location}' is no address of a proxy: write {scheme}://host:{DEFAULT_PORT}."
        )
    address = f"{scheme}://{host}:{port}"
    return StorageAddress("proxy", address, None, address)


def check_file(address: StorageAddress, create: bool) -> None:
    """Checks that a SQLite or journal file can be used, so that the error is about the file, not about a driver.

    Args:
        address: A file's address.
        create: Whether a missing file may be created. Defaults to `True` in `open_storage`; readers must not leave
            an empty database behind a mistyped name.

    Raises:
        StudyError: Saying what is wrong with the file and what to do.
    """
    path = address.path
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise StudyError(f"the storage {str(path)!r} is a directory: give a file in it, such as {path / 'finder.db'}.")
    if not folder.is_dir():
        raise StudyError(f"the storage {str(path)!r} cannot be created: make the directory {str(folder)!r} first.")
    if not path.exists():
        if not create:
            raise StudyError(f"there is no storage {str(path)!r}: check the path, or run a study with it first.")
        if not os.access(folder, os.W_OK):
            raise StudyError(f"the storage {str(path)!r} cannot be created: the directory is not writable for you.")
        return
    if not os.access(path, os.R_OK | os.W_OK):
        raise StudyError(f"the storage {str(path)!r} is not readable and writable for you: copy it or change its mode.")
    if address.kind == "sqlite" and not os.access(folder, os.W_OK):
        raise StudyError(f"SQLite writes files beside {str(path)!r}, but {str(folder)!r} is not writable: copy it.")
    if address.kind == "sqlite":
        _check_sqlite(path)
    else:
        _check_journal(path)


def _check_sqlite(path: Path) -> None:
    """Asks SQLite itself. A file that it has open in this process must never be opened, and closed, in another way.

    That would give back all the locks that this process has on it, and others would take it for unused.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            told = f"{str(path)!r} is not an SQLite database: give another file; this one was left as it is."
        else:
            told = f"the storage {str(path)!r} cannot be opened: {error}."
        raise StudyError(told) from None


def _check_journal(path: Path) -> None:
    try:
        with path.open("rb") as file:
            first_line = file.readline(1_000_000)
    except OSError as error:
        raise StudyError(f"the storage {str(path)!r} cannot be read: {error}") from None
    if first_line and not _is_journal_line(first_line):
        is_sqlite = first_line.startswith(_SQLITE_HEADER)
        hint = f"it is an SQLite database, use sqlite:///{path}" if is_sqlite else "it was left as it is"
        raise StudyError(f"{str(path)!r} is not an Optuna journal: give another file; {hint}.")


def _is_journal_line(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and "op_code" in entry
