"""Reading a study from TOML, with errors that name the line."""

from __future__ import annotations

import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from studies.checked_model import explain
from studies.errors import StudyError

if TYPE_CHECKING:
    from studies.spec import StudySpec

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")


def read_spec(path: str | PathLike[str], spec_class: type[StudySpec]) -> StudySpec:
    """Reads a spec from a TOML file.

    Args:
        path: The file.
        spec_class: The class to build, `StudySpec`.

    Raises:
        StudyError: If the file cannot be read, is not TOML, or has an unknown or mistyped key; names the file, the
            key, its line and, for an unknown key, the nearest one.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(f"there is no file {str(file)!r}: give the path of a study's TOML file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{str(file)!r} cannot be read as text: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{file}: not valid TOML: {error}") from None
    places = {key: f"{file}, line {line}" for key, line in key_lines(text).items()}
    try:
        # __pydantic_validator__ skips StudySpec.__init__, which would have turned the error into a sentence already,
        # without the lines that only this function knows.
        instance = spec_class.__new__(spec_class)
        spec_class.__pydantic_validator__.validate_python(data, self_instance=instance)
    except ValidationError as error:
        message = explain(error, spec_class, places)
        raise StudyError(message if str(file) in message else f"{file}: {message}") from None
    return instance


def key_lines(text: str) -> dict[str, int]:
    """Returns the line, from 1, where each dotted key of a TOML text is written.

    `tomllib` throws line numbers away. This reads only headers and the beginnings of `key =` lines, which is all that
    an error message needs; text inside multi-line strings is skipped.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix: list[str] = []
    closing: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if closing is not None:
            closing = None if closing in line else closing
            continue
        header = _HEADER.match(line)
        if header:
            prefix = _parts(header[2])
            name = ".".join(prefix)
            if header[1] == "[[":
                prefix = [*prefix, str(counts.get(name, 0))]
                counts[name] = counts.get(name, 0) + 1
            lines.setdefault(name, number)
            lines.setdefault(".".join(prefix), number)
            continue
        key = _KEY.match(line)
        if key:
            parts = [*prefix, *_parts(key[1])]
            for length in range(1, len(parts) + 1):
                lines.setdefault(".".join(parts[:length]), number)
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                closing = quotes
    return lines


def _parts(dotted: str) -> list[str]:
    return ["".join(groups) for groups in _PART.findall(dotted)]
