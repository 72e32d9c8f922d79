"""Numbers among the values of hyperparameters, and their complements."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, TypeGuard

from studies.errors import StudyError

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


def whole_number(name: str, value: Any) -> int | None:
    """Return an argument from 1 on as an integer, as which 1e6 counts; None if it is not given.

    Args:
        name: Name of the argument.
        value: Its value.

    Raises:
        StudyError: It is below 1, or no whole number.
    """
    if value is None:
        return None
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if not is_real or not 1 <= value < math.inf or value != int(value):
        raise StudyError(f"{name} is {value!r}: give a whole number from 1.")
    return int(value)


def complement(number: float) -> float:
    """Return 1 minus a number, without the rounding error of the subtraction."""
    return round(1 - number, _DIGITS)
