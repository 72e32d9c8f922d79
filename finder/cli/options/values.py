"""Parses the values of flags: whether they were given, JSON, lists of numbers, ``name=value``."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    import typer

_NAME = re.compile(r"([^=@]*)([=@]?)(.*)", re.DOTALL)
"""A name, what follows it, and the rest."""


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether a parameter was given on the command line, not by its default or the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP", "ENVIRONMENT")


def json_object(text: str | None, flag: str) -> dict[str, Any]:
    """Parse a JSON object; None is an empty one."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except RecursionError:
        raise ConfigurationError(
            f"{flag} is nested too deeply: write a JSON object, such as '{{\"name\": 1}}'."
        ) from None
    except ValueError as error:  # also numbers with thousands of digits
        raise ConfigurationError(f"{flag} is {text!r}, which is no JSON object: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{flag} is {text!r}: write a JSON object, such as '{{\"name\": 1}}'.")
    return value


def seeds(text: str | None) -> int | tuple[int, ...] | None:
    """Parse a number of seeds (``3``) or a list of seeds (``0,1,7``); ``7,`` is the list of the seed 7."""
    if text is None:
        return None
    try:
        if "," not in text:
            return int(text)
        several = tuple(int(part) for part in text.split(",") if part.strip())
        if several:
            return several
    except ValueError:
        pass
    raise ConfigurationError(f"--seeds is {text!r}: give how many, such as 3, or which, such as 0,1,2.")


def rates(text: str | None) -> list[float] | None:
    """Parse learning rates, ``1e-4,1e-3``.

    Raises:
        ConfigurationError: A rate is not finite or not > 0, or is repeated.
    """
    if text is None:
        return None
    found: list[float] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        try:
            rate = float(part)
        except ValueError:
            raise ConfigurationError(f"--rates is {text!r}: give numbers such as 1e-4,1e-3.") from None
        if not (math.isfinite(rate) and rate > 0):
            raise ConfigurationError(f"--rates has {part}: a learning rate is a finite number above 0.")
        if rate in found:
            raise ConfigurationError(f"--rates has {part} twice: give each rate once.")
        found.append(rate)
    if not found:
        raise ConfigurationError(f"--rates is {text!r}: give numbers such as 1e-4,1e-3.")
    return found


def refuse_lists(given: Iterable[str], flag: str) -> None:
    """Raise `ConfigurationError` for names with commas between them, of a flag that is repeated instead."""
    for text in given:
        names = [name.strip() for name in text.split(",")]
        if len(names) > 1 and all(name.isidentifier() for name in names):
            each = " ".join(f"{flag} {name}" for name in names)
            raise ConfigurationError(f"{flag} is {text!r}: give the flag once for each, {each}.")


def refuse_repeated_optimizers(optimizers: Iterable[str]) -> None:
    """Raise `ConfigurationError` if two labels describe the same optimizer."""
    from agents.config.optimizers import OptimizerSpec

    seen: list[OptimizerSpec] = []
    for given in optimizers:
        spec = OptimizerSpec.of(given)
        if spec in seen:
            raise ConfigurationError(f"--optimizer has {given!r} twice: give each optimizer once.")
        seen.append(spec)


def settings(pairs: Iterable[str] | None) -> dict[str, Any]:
    """Parse ``name=value`` pairs of `--set`; a value is JSON, a number, or text.

    Raises:
        ConfigurationError: An item is not a pair, or a name is repeated.
    """
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not (equals and name.strip() and text.strip()):
            raise ConfigurationError(f"--set is {pair!r}: write name=value, such as --set gamma=0.99.")
        _add(found, name.strip(), json_or_text(text.strip(), "--set"), "--set")
    return found


def spaces(pairs: Iterable[str] | None) -> dict[str, Any]:
    """Parse `--param`: ``name=space``, or a name for its declared range, or ``name@other=value`` under a condition.

    Spaces are parsed by `studies.spaces.space_notation.parse_space`.

    Raises:
        ConfigurationError: A name is missing or repeated, or a space is empty.
    """
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = _NAME.fullmatch(pair).groups()  # type: ignore[union-attr]  # matches every text
        is_empty = not text.strip() or (separator == "=" and text.strip().startswith("@"))
        if not name.strip() or (separator and is_empty):
            raise ConfigurationError(
                f"--param is {pair!r}: write name=low:high, name=low:high:step, name=a,b,c, or a name alone for its "
                "usual range; a condition follows, as in name@other=value."
            )
        space = None if not separator else f"@{text}" if separator == "@" else text.strip()
        _add(found, name.strip(), space, "--param")
    return found


def numbers(pairs: Iterable[str] | None) -> dict[str, tuple[float, ...]]:
    """Parse `--vary`: ``name=1,2,3``.

    Raises:
        ConfigurationError: An item is not a name with numbers, or a name is repeated.
    """
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, _, text = pair.partition("=")
        try:
            given = tuple(float(part) for part in text.split(",") if part.strip())
        except ValueError:
            given = ()
        if not (name.strip() and given and all(math.isfinite(number) for number in given)):
            raise ConfigurationError(f"--vary is {pair!r}: write name=0,0.9, a name and its values.")
        _add(found, name.strip(), given, "--vary")
    return found


def _add(found: dict[str, Any], name: str, value: Any, flag: str) -> None:
    if name in found:
        raise ConfigurationError(f"{flag} gives {name!r} twice: give it once.")
    found[name] = value


def json_or_text(text: str, flag: str) -> Any:
    """Return a value as JSON or a number, otherwise the text itself."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ConfigurationError(f"{flag} has a value that is nested too deeply: give a value, or a list.") from None
    except ValueError:
        try:
            value = float(text)  # JSON does not accept 1. and .5
        except ValueError:
            return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def limited_threads(n: int | None) -> int | None:
    """Limit the threads of TensorFlow, which reads the number when it starts; None sets no limit."""
    if n is not None:
        from agents.backend.threads import set_num_threads

        set_num_threads(n)
    return n


def one_or_all(given: Sequence[str] | None) -> str | list[str] | None:
    """Return the value of a flag that was given once, all of them if it was repeated, None if it was not given."""
    names = list(given or ())
    return names[0] if len(names) == 1 else names or None


def one_metric(given: Sequence[str] | None) -> str:
    """Return the metric of a command that takes only one.

    Raises:
        ConfigurationError: It was given more than once.
    """
    names = list(given or ("return",))
    if len(names) > 1:
        raise ConfigurationError(f"--metric was given {len(names)} times ({', '.join(names)}): give one metric here.")
    return names[0]


def file_name_of(study: str) -> str:
    """Return the name of a study as part of a file name; a digest tells apart names that differ in other characters."""
    plain = re.sub(r"[^\w.-]+", "-", study)[:80]
    return plain if plain == study else f"{plain}-{hashlib.sha256(study.encode()).hexdigest()[:8]}"


def refuse_other_than_html(output: Path) -> None:
    """Raise `ConfigurationError` for a file of `--output` that is not named as HTML; writing refuses folders."""
    if output.suffix.lower() not in (".html", ".htm") and not output.is_dir():
        raise ConfigurationError(
            f"--output is {str(output)!r}: give a file that ends in .html; the pictures in it can be saved as PNG."
        )
