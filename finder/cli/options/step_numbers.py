"""Numbers of environment steps as options: `50000`, `50_000` or `5e4`."""

from __future__ import annotations

import math


def parse_steps(text: str) -> int:
    """Return a number of environment steps.

    Args:
        text: A whole number of at least 1, also with underscores or an exponent.

    Raises:
        ValueError: It is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = _with_exponent(text)
    if number < 1:
        raise ValueError("it should be greater than or equal to 1")
    return number


def _with_exponent(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise ValueError("it should be a whole number, such as 50000 or 5e4")
    return int(value)
