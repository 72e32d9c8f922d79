"""SQLite URLs and paths: which file they name, whether it is read-only, and its SQLAlchemy URL."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from studies.errors import StudyError, nearest
from studies.redaction import redacted

BUSY_SECONDS = 30.0
"""Seconds that a connection waits for the lock of a file, unless the URL has a `timeout`."""

_OWN_OPTIONS = ("mode", "timeout")
_MODES = ("ro", "rw", "rwc")
_TRUE = ("true", "yes", "on", "y", "t", "1")
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_SPECIAL = re.compile(r"[%?{}]")  # Optuna substitutes braces


class FileUrl(NamedTuple):
    """File that a URL names.

    Attributes:
        path: The file.
        options: Options after the question mark.
    """

    path: str
    options: Mapping[str, str]


class SqliteFile(NamedTuple):
    """SQLite file and how it is opened.

    Attributes:
        path: The file.
        url: SQLAlchemy URL.
        read_only: Whether the URL requests read-only access.
        busy_seconds: Seconds that a connection waits for its lock.
    """

    path: Path
    url: str
    read_only: bool
    busy_seconds: float


def url_of_path(scheme: str, path: Path) -> str:
    """Return the URL of a file, with all characters of its path escaped."""
    return f"{scheme}:///" + _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", str(path))


def read_file_url(url: str, example: str) -> FileUrl:
    """Parse `scheme:///path?name=value`; three slashes start a relative path, four an absolute one.

    Args:
        url: URL, with percent-encoded characters.
        example: Valid URL, for errors.

    Raises:
        StudyError: If the URL has a host, no path, or invalid options; or if the path is ambiguous, because a file
            exists whose name contains `%20` literally.
    """
    _, _, location = url.partition("://")
    written, _, query = location.partition("?")
    host, _, path = written.partition("/")
    if host:
        shown = redacted(url)
        raise StudyError(f"the storage {shown!r} has a host, as a URL with two slashes has: write {example} (three).")
    if not path:
        raise StudyError(f"the storage {url!r} names no file: write {example}.")
    decoded = unquote(path)
    if _ESCAPED.search(path) and os.path.exists(path):  # False for invalid paths
        raise StudyError(
            f"the storage {url!r} could be two files, {decoded!r} (as in every URL) and {path!r}, which is there: "
            "give the path of the one that is meant, without a scheme."
        )
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise StudyError(
            f"the storage {url!r} has {query!r} behind a question mark, which is not an option: give the path itself, "
            f"without a scheme, or write %3F where the file's name has a question mark."
        ) from None
    options = dict(pairs)
    if len(options) < len(pairs):
        raise StudyError(f"the storage {url!r} has an option twice: give each once.")
    return FileUrl(decoded, options)


def is_read_only(url: str, options: Mapping[str, str], allowed: tuple[str, ...] = ("mode",)) -> bool:
    """Return whether the options of a URL request read-only access.

    Raises:
        StudyError: If an option is unknown, or the mode is not `ro`.
    """
    for name in options:
        if name not in allowed:
            raise StudyError(f"the storage {url!r} has the option {name!r}, which is unknown. {nearest(name, allowed)}")
    mode = options.get("mode", "rwc")
    if mode not in ("ro", "rwc"):
        raise StudyError(f"the storage {url!r} has mode={mode}: write mode=ro to read only, or leave it out.")
    return mode == "ro"


def read_sqlite_url(url: str) -> SqliteFile:
    """Parse the URL of a SQLite file.

    Args:
        url: `sqlite:///finder.db`, with `?mode=ro` for read-only access and `?timeout=60` for the seconds to wait for a
            lock; or, in SQLAlchemy's form, `sqlite:///file:finder.db?mode=ro&uri=true`, whose path and options are
            those of a SQLite URI.

    Raises:
        StudyError: If the URL names no file, or has options that are unknown or contradict each other.
    """
    path, options = read_file_url(url, "sqlite:///finder.db")
    busy_seconds = _seconds(url, options)
    asked = options.get("uri")
    if path.startswith("file:"):
        if asked is None or asked.lower() not in _TRUE:
            raise StudyError(
                f"the storage {url!r} begins like a URI of SQLite's, but has no uri=true: add it "
                "(sqlite:///file:finder.db?mode=ro&uri=true), or write sqlite:///finder.db."
            )
        file, read_only = _file_of_uri(url, path, options)
        return SqliteFile(file, url.replace("{", "%7B").replace("}", "%7D"), read_only, busy_seconds)
    if asked is not None:
        raise StudyError(
            f"the storage {url!r} has uri={asked}, but its path does not begin with file: - write "
            "sqlite:///file:finder.db?mode=ro&uri=true, or leave it out."
        )
    read_only = is_read_only(url, options, _OWN_OPTIONS)
    scheme = url.partition("://")[0]
    return SqliteFile(Path(path), url_of_path(scheme, Path(path)), read_only, busy_seconds)


def _seconds(url: str, options: Mapping[str, str]) -> float:
    given = options.get("timeout")
    if given is None:
        return BUSY_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < 1e6:
        raise StudyError(f"the storage {url!r} has timeout={given}: give seconds, from 0, such as timeout=30.")
    return seconds


def _file_of_uri(url: str, uri: str, options: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the file of a SQLite URI, which is percent-decoded once more, and whether it is read-only."""
    place = uri.removeprefix("file:")
    if "?" in place or "#" in place:
        raise StudyError(f"the storage {url!r} has a ? or # in its path: give the path itself, without a scheme.")
    if place.startswith("//"):
        authority, slash, rest = place[2:].partition("/")
        if authority not in ("", "localhost"):
            raise StudyError(f"the storage {url!r} is on {authority!r}: SQLite opens files of this machine only.")
        place = slash + rest
    if not place:
        raise StudyError(f"the storage {url!r} names no file: write sqlite:///file:finder.db?mode=ro&uri=true.")
    mode = options.get("mode", "rwc")
    if mode == "memory" or place == ":memory:":
        raise StudyError(f"the storage {url!r} is in memory: write memory.")
    if mode not in _MODES:
        raise StudyError(f"the storage {url!r} has mode={mode}: SQLite knows {', '.join(_MODES)}.")
    return Path(unquote(place)), mode == "ro" or options.get("immutable", "").lower() in _TRUE
