"""Parses the parameter sets of ``--first``: written on the command line, or in a TOML or JSON file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError
from finder.cli.options.values import json_or_text

_EXAMPLE = "learning_rate=3e-4,gamma=0.99"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parameter_sets(given: Sequence[str] | None) -> list[dict[str, Any] | str] | None:
    """Return the parameter sets of `--first`, which may be repeated, in order.

    Args:
        given: Each a set, such as ``learning_rate=3e-4,gamma=0.99``, or the path of a ``.toml`` or ``.json`` file with
            one or several sets; or ``zoo``, which stays as it is; or ``none`` alone, for no sets. None for no flag.

    Raises:
        ConfigurationError: A set or a file cannot be read, or a set has a name twice.
    """
    if given is None:
        return None
    words = [text.strip().lower() for text in given]
    if words == ["none"]:
        return []
    found: list[dict[str, Any] | str] = []
    for text, word in zip(given, words, strict=True):
        path = Path(text)
        if word == "none":
            raise ConfigurationError("--first none cannot be combined with other sets: leave one of them out.")
        if word == "zoo":
            found.append(word)
            continue
        found += _in_file(path) if path.suffix in (".toml", ".json") else [_parameter_set(text)]
    return found


def _parameter_set(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in _at_outer_commas(text):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise ConfigurationError(
                f"--first is {text!r}: write name=value with a comma between them, such as {_EXAMPLE}, the path of a "
                ".toml or .json file, zoo, or none."
            )
        if name in found:
            raise ConfigurationError(f"--first is {text!r}, which gives {name!r} twice: give it once.")
        found[name] = json_or_text(value, "--first")
    return found


def _at_outer_commas(text: str) -> Iterator[str]:
    """Yield the parts of a text between commas that are in no brackets and no quotes."""
    part, expected, quote = "", list[str](), ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter == '"':
            quote = letter
        elif letter in _CLOSING:
            expected.append(_CLOSING[letter])
        elif expected and letter == expected[-1]:
            expected.pop()
        elif letter == "," and not expected:
            yield part
            part = ""
            continue
        part += letter
    yield part


def _in_file(path: Path) -> list[dict[str, Any]]:
    """Return the sets in a file: a table, a list of tables, or those under the key `first`, as in a study's file."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigurationError(f"--first is {str(path)!r}: there is no such file.") from None
    except RecursionError:
        raise ConfigurationError(f"--first: {path} is nested too deeply: write tables of values.") from None
    except (OSError, ValueError) as error:  # ValueErrors: wrong encodings, JSON and TOML
        raise ConfigurationError(f"--first: {path} cannot be read: {error}.") from None
    if isinstance(content, Mapping) and "first" in content:
        content = content["first"]
    sets = content if isinstance(content, list) else [content]
    if not sets or not all(isinstance(each, Mapping) and each for each in sets):
        raise ConfigurationError(
            f"--first: {path} has no parameter sets: write one as a table of names and values, or several, in TOML "
            "each under [[first]], in JSON as a list."
        )
    return [dict(each) for each in sets]
