"""Representations of one line for records that hold arrays or many values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_CHARACTERS = 60
"""Longest representation of a single value that is shown in full, in characters."""

MAX_VALUES = 6
"""Largest number of values of a mapping that are shown one by one."""


def short_repr(record: Any) -> str:
    """Return the class name of a dataclass or a named tuple and its fields, with sizes in place of long values.

    The function can be assigned in the body of a class: ``__repr__ = short_repr``.
    """
    names = getattr(record, "_fields", None) or [field.name for field in dataclasses.fields(record) if field.repr]
    return f"{type(record).__name__}({', '.join(f'{name}={short(getattr(record, name))}' for name in names)})"


def short(value: Any) -> str:
    """Return the representation of a short value, else its type and its size."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping) and len(value) <= MAX_VALUES:
        return "{" + ", ".join(f"{key!r}: {short(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list | tuple | Mapping) and (len(value) > MAX_CHARACTERS or len(repr(value)) > MAX_CHARACTERS):
        return f"{type(value).__name__} of {len(value):,}"
    text = repr(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 4]}...{text[-1]}"
