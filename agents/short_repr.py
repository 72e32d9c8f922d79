"""Representations that fit on a line, of records that hold arrays or many values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_CHARACTERS = 60
"""Characters of the representation of a single value that is shown as it is."""

MAX_VALUES = 6
"""Values of a mapping that are shown one by one."""


def short_repr(record: Any) -> str:
    """Return the class of a dataclass or a named tuple and its fields, with sizes in the place of long values.

    It can be assigned in the body of a class: ``__repr__ = short_repr``.
    """
    names = getattr(record, "_fields", None) or [field.name for field in dataclasses.fields(record) if field.repr]
    return f"{type(record).__name__}({', '.join(f'{name}={short(getattr(record, name))}' for name in names)})"


def short(value: Any) -> str:
    """Return the representation of a value where it is short, else its kind and its size."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping) and len(value) <= MAX_VALUES:
        return "{" + ", ".join(f"{key!r}: {short(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list | tuple | Mapping) and (len(value) > MAX_CHARACTERS or _is_long(value)):
        return f"{type(value).__name__} of {len(value):,}"
    text = repr(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 4]}...{text[-1]}"


def _is_long(value: Any) -> bool:
    return len(repr(value)) > MAX_CHARACTERS
