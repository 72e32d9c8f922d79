"""Reader of TOML files whose errors name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from studies.checked_model import CheckedModel, mistakes
from studies.errors import StudyError

_Model = TypeVar("_Model", bound=CheckedModel)

Location = tuple[int | str, ...]
"""Keys from the outside in, such as `("params", "gamma")`; () for the file as a whole."""

Mistake = tuple[Location, str]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")


@dataclass(frozen=True, slots=True)
class StudyFile:
    """TOML file of a study, parsed but not validated.

    Attributes:
        path: Path of the file.
        data: Contents.
        lines: Dotted key -> line where it is written.
    """

    path: Path
    data: dict[str, Any]
    lines: Mapping[str, int]

    def error(self, mistakes: Iterable[Mistake]) -> StudyError:
        """Return one error with all mistakes in the order of their lines, one per line."""
        found = sorted((self._line(location), sentence) for location, sentence in mistakes)
        return StudyError(
            "\n".join(f"{self.path}{f', line {line}' if line else ''}: {sentence}" for line, sentence in found)
        )

    def _line(self, location: Location) -> int:
        """Return the line of the longest prefix of a location that is written in the file, 0 if there is none."""
        parts = [str(part) for part in location]
        keys = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((self.lines[key] for key in keys if key in self.lines), 0)


def read_file(path: str | PathLike[str]) -> StudyFile:
    """Read a TOML file.

    Raises:
        StudyError: If the file cannot be read or is not TOML.
    """
    try:
        file = Path(path)
    except TypeError:
        raise StudyError(f"the file of a study is {path!r}: give the path of its TOML file.") from None
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(f"there is no file {str(file)!r}: give the path of a study's TOML file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{str(file)!r} cannot be read as text: {error}") from None
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise StudyError(f"{file} is nested too deeply: write values, lists and tables of these.") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{file}: not valid TOML: {error}") from None
    return StudyFile(file, data, key_lines(text))


def model_of(file: StudyFile, model: type[_Model]) -> tuple[_Model | None, list[Mistake]]:
    """Return the model that a file describes, or None and the mistakes in the file."""
    try:
        # __pydantic_validator__ skips CheckedModel.__init__, which turns the error into sentences without locations.
        instance = model.__new__(model)
        model.__pydantic_validator__.validate_python(file.data, self_instance=instance)
    except ValidationError as error:
        return None, mistakes(error, model)
    return instance, []


def read_model(path: str | PathLike[str], model: type[_Model]) -> _Model:
    """Read a model from a TOML file.

    Args:
        path: The file.
        model: Class to build, such as `StudySpec`.

    Raises:
        StudyError: If the file cannot be read, is not TOML, or has unknown or mistyped keys; names the file and, for
            each mistake, the key, its line and the nearest valid key.
    """
    file = read_file(path)
    built, found = model_of(file, model)
    if built is None:
        raise file.error(found)
    return built


def key_lines(text: str) -> dict[str, int]:
    """Return the line, from 1, where each dotted key of a TOML text is written.

    `tomllib` discards line numbers. Only headers and the beginnings of `key =` lines are parsed, which is all that an
    error message needs; text inside multi-line strings is skipped.
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
