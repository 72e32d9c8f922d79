"""Numbers among the values of hyperparameters, and their complements."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

_DIGITS = 12
"""Decimals to which complements are rounded: that of 0.99 is 0.01, not 0.010000000000000009."""


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether a value is a number; `True` and `False` are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(number: float) -> bool:
    """Return whether a number is finite as a float; an integer beyond the range of floats is not."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def complement(number: float) -> float:
    """Return 1 minus a number, without the rounding error of the subtraction."""
    return round(1 - number, _DIGITS)
