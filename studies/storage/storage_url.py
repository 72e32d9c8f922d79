"""Storage URLs: parsing and checks before anything is created."""

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

from studies.database.damage import OPTUNA_TABLES, VERSION_TABLE, damaged
from studies.database.sqlite_connections import connect
from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError, nearest
from studies.redaction import has_hidden, redacted
from studies.storage.sqlite_url import BUSY_SECONDS, is_read_only, read_file_url, read_sqlite_url, url_of_path

_SQLITE_HEADER = b"SQLite format 3\x00"
_SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_JOURNAL_SUFFIXES = (".log", ".jsonl", ".journal")
_EXAMPLES = (
    "finder.db or sqlite:///finder.db (a file; with ?mode=ro to read only), memory, journal:///finder.log, "
    "postgresql+psycopg://user:password@host/database, mysql+pymysql://user:password@host/database, "
    "grpc://host:13000 (finder serve; grpcs:// with --tls-cert)"
)
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""URLs without a driver use the one that Finder's extras install, rather than SQLAlchemy's default."""

DEFAULT_PORT = 13_000
"""Port of Optuna's gRPC proxy."""

_SCHEMES = ("sqlite", "journal", "memory", "postgresql", "mysql", "mariadb", "grpc", "grpcs")


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """Parsed URL of a storage.

    Attributes:
        kind: Kind of storage.
        url: SQLAlchemy URL, URL of a journal, or `memory`. May contain a password.
        path: File, for SQLite files and journals; otherwise None.
        label: URL for messages, without a password.
        read_only: Whether the URL requests read-only access.
        busy_seconds: Seconds to wait for the lock of a SQLite file.
    """

    kind: Literal["memory", "sqlite", "journal", "server", "proxy"]
    url: str = field(repr=False)
    path: Path | None
    label: str
    read_only: bool = False
    busy_seconds: float = BUSY_SECONDS


def parse_storage_url(url: str | os.PathLike[str]) -> StorageAddress:
    """Parse the URL or path of a storage.

    Args:
        url: `memory`; a SQLAlchemy URL (without a driver: psycopg or PyMySQL; see
            `studies.storage.sqlite_url.read_sqlite_url`); `journal:///file.log` (four slashes for an absolute path, as
            in SQLite's URLs); a path ending in .db, .sqlite or .sqlite3 (SQLite) or in .log, .jsonl or .journal
            (journal), every character of which is literal; `grpc://host:port` of a server that `finder serve` started
            (`grpcs://` if it has a certificate). In the URLs of files `%20` is a space, and `?mode=ro` requests
            read-only access.

    Raises:
        StudyError: If it is none of these.
    """
    url = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(url, str) or not url.strip():
        raise StudyError(f"the storage is {url!r}: give one of {_EXAMPLES}.")
    url = url.strip()
    if url in ("memory", "memory://", "sqlite://", "sqlite:///:memory:"):
        return StorageAddress("memory", "memory", None, "memory")
    return _url_address(url) if "://" in url else _path_address(url)


def default_label() -> str:
    """Return the label of the default storage: that of `OPTUNA_STORAGE`, else `DEFAULT_STORAGE`."""
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
    if has_hidden(url):
        raise StudyError(
            f"the storage {url!r} has stars in place of its password, which messages do not show: write the password, "
            "or export the URL as OPTUNA_STORAGE and leave --storage out."
        )
    if scheme == "journal":
        path, options = read_file_url(url, "journal:///finder.log")
        canonical = url_of_path("journal", Path(path))
        return StorageAddress("journal", canonical, Path(path), url, read_only=is_read_only(url, options))
    if scheme == "sqlite":
        file = read_sqlite_url(url)
        return StorageAddress(
            "sqlite", file.url, file.path, url, read_only=file.read_only, busy_seconds=file.busy_seconds
        )
    if scheme in ("grpc", "grpcs"):
        return _proxy_address(scheme, location)
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StudyError(f"the storage URL cannot be read ({error}): give one of {_EXAMPLES}.") from None
    label = redacted(parsed.render_as_string(hide_password=True))
    return StorageAddress("server", f"{_DRIVERS.get(given.lower(), given)}://{location}", None, label)


def _path_address(url: str) -> StorageAddress:
    try:
        path = Path(url).expanduser()
    except RuntimeError:
        raise StudyError(
            f"the storage {url!r} is in the home directory of an unknown user: write the whole path."
        ) from None
    if path.suffix in _SQLITE_SUFFIXES:
        return StorageAddress("sqlite", url_of_path("sqlite", path), path, str(path))
    if path.suffix in _JOURNAL_SUFFIXES:
        return StorageAddress("journal", url_of_path("journal", path), path, str(path))
    if "@" in url:  # the part before the @ may be a password
        raise StudyError(f"the storage has an @ but no scheme: give one of {_EXAMPLES}.")
    named, mark, options = url.partition("?")
    if mark and "=" in options and Path(named).suffix in (*_SQLITE_SUFFIXES, *_JOURNAL_SUFFIXES):
        scheme = "sqlite" if Path(named).suffix in _SQLITE_SUFFIXES else "journal"
        raise StudyError(f"the storage {url!r} is a path, which has no options: write {scheme}:///{url}.")
    raise StudyError(f"the storage {url!r} is not a URL and has no known ending: give one of {_EXAMPLES}.")


def _proxy_address(scheme: str, location: str) -> StorageAddress:
    """Return the address of a gRPC proxy, with the default port if it has none."""
    if "@" in location:  # the part before the @ may be a secret, which process lists would show
        raise StudyError(f"an address of a proxy holds no token: set FINDER_TOKEN, and write {scheme}://host:port.")
    host, _, port = location.rstrip("/").partition(":")
    port = port or str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise StudyError(
            f"the storage '{scheme}://{location}' is not the address of a proxy: write {scheme}://host:{DEFAULT_PORT}."
        )
    address = f"{scheme}://{host}:{port}"
    return StorageAddress("proxy", address, None, address)


def lock_timeout(address: StorageAddress) -> float:
    """Return the seconds that a call waits for the lock of a file: the timeout of its URL, or that of a study's calls.

    A running study repeats the call for as long as it retries its storage.
    """
    from studies.database.retries import call_limit

    return call_limit(BUSY_SECONDS) if address.busy_seconds == BUSY_SECONDS else address.busy_seconds


def check_file(address: StorageAddress, create: bool) -> None:
    """Check that a SQLite or journal file can be used, so that errors name the file rather than a driver.

    Args:
        address: Address of a file.
        create: Whether a missing file may be created, and the file is to be written; readers must not leave an empty
            database behind a mistyped name.

    Raises:
        StudyError: Says what is wrong with the file and what to do.
    """
    path = address.path
    if path is None:
        return
    try:
        _check_place(address, path, create)
    except OSError as error:  # an inaccessible directory, a name that is too long
        raise StudyError(f"the storage {str(path)!r} cannot be opened: {error.strerror}. Give another path.") from None
    if not path.exists():
        return
    if address.kind == "journal":
        _check_journal(path)
    elif not why_read_only(address):
        _check_sqlite(address, path)


def why_read_only(address: StorageAddress) -> str:
    """Return the reason why a file is read-only; empty if it is writable, or not a file."""
    path = address.path
    if path is None or not path.exists():
        return ""
    if address.read_only:
        return "its URL says so"
    if not os.access(path, os.W_OK):
        return "the file is not writable for you"
    if not os.access(path.parent, os.W_OK):
        return f"its directory {str(path.parent)!r}, in which files are written beside it, is not writable for you"
    return ""


def _check_place(address: StorageAddress, path: Path, create: bool) -> None:
    """Check a file without opening it."""
    folder = path.parent
    if path.is_dir():
        raise StudyError(f"the storage {str(path)!r} is a directory: give a file in it, such as {path / 'finder.db'}.")
    if create and address.read_only:
        raise StudyError(f"the storage {address.label!r} cannot be opened for writing: leave out its mode=ro.")
    if not folder.is_dir():
        absolute = Path("/", folder)
        meant = (
            f" Or write an absolute path with four slashes: {address.kind}:///{Path('/', path)}."
            if not path.is_absolute() and absolute.is_dir()
            else ""
        )
        raise StudyError(f"the storage {str(path)!r} does not exist: make the directory {str(folder)!r} first.{meant}")
    if not path.exists():
        if not create:
            raise StudyError(f"there is no storage {str(path)!r}: check the path, or run a study with it first.")
        if not os.access(folder, os.W_OK):
            raise StudyError(f"the storage {str(path)!r} cannot be created: the directory is not writable for you.")
        return
    if not path.is_file():  # opening a pipe blocks until it has a writer
        raise StudyError(f"the storage {str(path)!r} is not a regular file: give another path.")
    if not os.access(path, os.R_OK | os.W_OK if create else os.R_OK):
        what = "readable and writable" if create else "readable"
        raise StudyError(f"the storage {str(path)!r} is not {what} for you: copy it or change its mode.")
    if create and address.kind == "sqlite" and not os.access(folder, os.W_OK):
        raise StudyError(f"SQLite writes files beside {str(path)!r}, but {str(folder)!r} is not writable: copy it.")


def _check_sqlite(address: StorageAddress, path: Path) -> None:
    """Check a file with SQLite itself.

    A file that this process has open in SQLite must not be opened and closed otherwise.

    Closing it would release all locks that this process has on it, and other processes would take it for unused.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with contextlib.closing(connect(uri, lock_timeout(address), uri=True)) as connection:
            connection.execute("PRAGMA schema_version")
            _check_tables(path, connection)
    except sqlite3.DatabaseError as error:
        raise not_opened(path, error) from None


def _check_tables(path: Path, connection: sqlite3.Connection) -> None:
    """Reject a database that has lost tables: Optuna would silently create empty ones."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if VERSION_TABLE not in there:
        return
    version = connection.execute(f"SELECT max(version_num) FROM {VERSION_TABLE}").fetchone()[0]
    if version is None or str(version).startswith(("v0.", "v1.", "v2.")):
        return
    missing = [name for name in OPTUNA_TABLES if name not in there]
    if missing:
        raise damaged(f"the storage {str(path)!r}", f"its table {missing[0]} is missing")


def not_opened(path: Path, error: sqlite3.Error) -> StudyError:
    """Return the error that explains why SQLite cannot open a file."""
    if "not a database" in str(error):
        return StudyError(f"{str(path)!r} is not an SQLite database: give another file; this one was left as it is.")
    if not isinstance(error, sqlite3.OperationalError):
        return damaged(f"the storage {str(path)!r}", str(error))
    return StudyError(
        f"the storage {str(path)!r} cannot be opened: {error}. Check that no other process has locked it, and that "
        "you have access."
    )


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
