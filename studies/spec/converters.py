"""Conversions of what users write into the types of a spec, before it is validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from studies.errors import StudyError

MOST_SEEDS = 10_000
"""Limit on seeds of a trial, which catches typing errors."""


def as_tuple(value: Any) -> Any:
    """Convert a text to a tuple of one."""
    return (value,) if isinstance(value, str) else value


def as_seeds(value: Any) -> Any:
    """Convert a count to that many seeds: 3 to 0, 1, 2."""
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return tuple(value)
    if not isinstance(value, int | str) or isinstance(value, bool):
        return value
    if isinstance(value, str) or not 1 <= value <= MOST_SEEDS:
        raise StudyError(
            f"{value!r} is not a number of seeds: give how many, from 1 to {MOST_SEEDS}, or a list of seeds."
        )
    return tuple(range(value))


def as_one_spelling(value: Any) -> Any:
    """Normalize spelling: `None` and `Mirrored: 2` become `none` and `mirrored:2`."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


def is_left_out(value: Any) -> bool:
    """Return whether a field of a later version is left out of what is stored, so that earlier versions read it."""
    return value is None or value == ()
