"""Notations of search spaces: how they are written in TOML, in Python and as text of flags."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from studies.checked_model import plain
from studies.errors import StudyError, nearest
from studies.spaces.conditions import condition_text, value_text
from studies.spaces.numbers import is_finite, is_number
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, Json, Space
from studies.words import exact_text

_CONDITION = re.compile(r"@\s*([^@=\s,:]+)\s*=")


def parse_space(value: Any, *, log: bool | None = None, integer: bool | None = None) -> Space:
    """Return the space that a value from TOML, Python or `--param name=` describes.

    Args:
        value: One of: a space (returned as it is); a number, bool or None (fixed); a list, tuple or array (a
            choice); a mapping `{low, high, log, step}`, `{values}`, `{choices}` or `{value}`; or text: `"a:b"` (a
            range), `"a:b:log"`, `"a:b:linear"`, `"a:b:step"`, `"a,b,c"` (a choice, each item JSON or else text), any
            other text (fixed). A mapping may have conditions as `when`, and text ends with them:
            `"0:0.99@optimizer=sgd"`.
        log: Default scale of ranges that do not set it. Defaults to `None`, which is linear.
        integer: `True` requires integers, `False` real numbers. Defaults to `None`: integers if both ends are written
            as integers.

    Returns:
        The space.

    Raises:
        StudyError: If the value is none of these or contradicts itself.
    """
    if isinstance(value, FloatRange | IntRange | Choice | Fixed):
        return value
    value = plain(value)
    if isinstance(value, str):
        text, when = split_conditions(value)
        if when and not text:
            raise StudyError(f"{value!r} is a condition without a space: write a range, choice or value before it.")
        return conditional(_parse_text(text, log, integer) if when else _parse_text(value, log, integer), when)
    if isinstance(value, list | tuple):
        return Choice(values=tuple(value))
    if isinstance(value, Mapping):
        return _parse_mapping(value, log, integer)
    if value is None or isinstance(value, bool | int | float):
        return Fixed(value=value)
    raise StudyError(
        f"{value!r} ({type(value).__name__}) is not a search space: give a number, text, a list of choices, "
        "'low:high', or a table with low and high."
    )


SpaceField = Annotated[Space, BeforeValidator(parse_space)]
"""Pydantic field that accepts everything that `parse_space` accepts."""


def space_text(space: Space) -> str:
    """Return a space in the notation of flags: `1e-5:0.01:log`, `adam,sgd`, `0:0.99@optimizer=sgd`.

    `parse_space` reads it as the same space, except choices of one value, and texts that look like another value or
    have a comma.
    """
    if isinstance(space, FloatRange | IntRange):
        ends = [_end_text(space.low), _end_text(space.high)]
        if isinstance(space, FloatRange) and all(end.lstrip("-").isdigit() for end in ends):
            ends[1] += ".0"  # two whole numbers would be a range of whole numbers
        third = ["log"] if space.log else [] if space.step is None else [_end_text(space.step)]
        text = ":".join([*ends, *third])
    else:
        values = space.values if isinstance(space, Choice) else (space.value,)
        text = ",".join(map(value_text, values))
    return f"{text}{condition_text(space)}"


def spaces_text(spaces: Mapping[str, Space]) -> str:
    """Return spaces as the flags `--param` have them: `gamma=0.9:0.999, optimizer=adam,sgd`."""
    return ", ".join(f"{name}={space_text(space)}" for name, space in spaces.items())


def _end_text(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    return re.sub(r"e([+-])0+", r"e\1", exact_text(number))  # 1e-5, not 1e-05


def split_conditions(text: str) -> tuple[str, dict[str, tuple[Json, ...]]]:
    """Return the space in a text, and the conditions after it: `0:0.99@optimizer=sgd,rmsprop` has one.

    Raises:
        StudyError: If a parameter has no values, or two conditions.
    """
    space, *parts = _CONDITION.split(text)
    when: dict[str, tuple[Json, ...]] = {}
    for name, values in zip(parts[::2], parts[1::2], strict=True):
        if name in when:
            raise StudyError(f"{text!r} has two conditions on {name!r}: write the values of one with commas.")
        when[name] = _items(values, text)
    return space.strip(), when


def conditional(space: Space, when: Mapping[str, Any]) -> Space:
    """Return a space under further conditions; the same space if there are none."""
    return type(space)(**{**space.model_dump(), "when": {**space.when, **when}}) if when else space


def _parse_text(text: str, log: bool | None, integer: bool | None) -> Space:
    parts = [part.strip() for part in text.split(":")]
    ends = [_number(part) for part in parts[:2]]
    if len(parts) > 1 and any(end is not None for end in ends):
        third = parts[2] if len(parts) > 2 else ""
        step = _number(third)
        is_third = len(parts) < 3 or step is not None or third in ("log", "linear")
        if len(parts) > 3 or any(end is None for end in ends) or not is_third:
            raise StudyError(
                f"{text!r} is not a range: write 'low:high', 'low:high:log', 'low:high:linear' or 'low:high:step', "
                "such as 1e-5:1e-1:log."
            )
        whole = all(isinstance(number, int) for number in (*ends, step) if number is not None)
        log = third == "log" or (bool(log) and step is None and third != "linear")
        return _range(ends[0], ends[1], step, log=log, whole=whole, integer=integer)
    if "," in text:
        items = _items(text, text)
        return Choice(values=items) if len(items) > 1 else Fixed(value=items[0])
    return Fixed(value=_scalar(text.strip()))


def _items(text: str, whole: str) -> tuple[Json, ...]:
    """Return values with commas between them, each JSON or else text; `whole` is the text that an error shows."""
    try:
        items = json.loads(f"[{text}]")
    except (json.JSONDecodeError, RecursionError):
        items = [_scalar(item.strip()) for item in _split(text)]
    if not items or any(item == "" for item in items):
        raise StudyError(f"{whole!r} has an empty choice: write values with one comma between them.")
    return tuple(items)


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas, except those within brackets, or between double quotes."""
    parts, depth, is_quoted = [""], 0, False
    for character in text:
        is_quoted ^= character == '"'
        depth += 0 if is_quoted else (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0 and not is_quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _parse_mapping(given: Mapping[str, Any], log: bool | None, integer: bool | None) -> Space:
    table = {key: value for key, value in given.items() if key != "when"}
    space = _parse_table(table, log, integer)
    return type(space)(**{**space.model_dump(), "when": given["when"]}) if "when" in given else space


def _parse_table(table: Mapping[str, Any], log: bool | None, integer: bool | None) -> Space:
    kind = table.get("type")
    if kind not in (None, "float", "int", "choice", "fixed"):
        raise StudyError(f"type is {kind!r}. {nearest(str(kind), ('float', 'int', 'choice', 'fixed'))}")
    for key, allowed in (("choices", Choice), ("values", Choice), ("value", Fixed)):
        if key in table:
            _only(table, {key, "type"})
            if allowed is Fixed:
                return Fixed(value=table[key])
            if not isinstance(table[key], list | tuple):
                raise StudyError(f"{key} is {table[key]!r}: give a list.")
            return Choice(values=tuple(table[key]))
    _only(table, {"low", "high", "log", "step", "type"})
    low, high, step = table.get("low"), table.get("high"), table.get("step")
    for key, number in (("low", low), ("high", high), ("step", step)):
        if number is None and key == "step":
            continue
        if not is_number(number):
            raise StudyError(f"{key} is {number!r}: a range needs a number there, such as {{low = 1e-5, high = 0.1}}.")
    if not isinstance(table.get("log", False), bool):
        raise StudyError(f"log is {table['log']!r}: give true or false.")
    whole = all(isinstance(number, int) for number in (low, high, step) if number is not None)
    if kind is not None:
        integer = kind == "int"
    is_log = table.get("log", bool(log) and step is None)
    return _range(low, high, step, log=is_log, whole=whole, integer=integer)


def _only(table: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = [key for key in table if key not in allowed]
    if unknown:
        raise StudyError(f"unknown key {unknown[0]!r} in a search space. {nearest(unknown[0], allowed)}")


def _range(low: Any, high: Any, step: Any, *, log: bool, whole: bool, integer: bool | None) -> Space:
    if not all(is_finite(number) for number in (low, high, step or 0)):
        raise StudyError(f"{low}:{high} is not a range: give finite numbers.")
    if integer or (integer is None and whole):
        fractional = [number for number in (low, high, step) if number is not None and int(number) != number]
        if fractional:
            raise StudyError(f"{fractional[0]} is not whole: this hyperparameter takes whole numbers.")
        return IntRange(int(low), int(high), log=log, step=None if step is None else int(step))
    return FloatRange(float(low), float(high), log=log, step=None if step is None else float(step))


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _scalar(text: str) -> Json:
    try:
        value = json.loads(text)
    except RecursionError:
        raise StudyError(f"{text[:50]!r}... is nested too deeply: give a value, or a list.") from None
    except ValueError:
        number = _number(text)  # JSON rejects 1. and .5, which users write
        return text if number is None or not math.isfinite(number) else number
    return text if isinstance(value, float) and not math.isfinite(value) else value
