"""What those that left a search early would have been worth at the end. Pure functions over numbers.

Runs go on learning after the others have left, so a value from the middle of a run is no value of its end. Those that
came to their ends say by how much runs still gain from there, and how differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from studies.values import iqm


class AtEnd(NamedTuple):
    """What a run that left would have been worth.

    Attributes:
        value: The expected value.
        error: Its standard error.
        df: Degrees of freedom of the error.
    """

    value: float
    error: float
    df: float


def at_end(seed_values: Sequence[float], survivors: Sequence[tuple[float, float]]) -> AtEnd:
    """Returns what a candidate would have been worth, from where it left.

    Args:
        seed_values: What each of its seeds was worth there, at least one, finite.
        survivors: Of each that came to its end: what it was worth there, and at its end. At least one.
    """
    value = float(iqm(seed_values))
    gains = np.array([end - there for there, end in survivors])
    n = len(seed_values)
    own = float(np.var(seed_values, ddof=1)) / n if n > 1 else 0.0
    # One survivor says nothing of how gains differ: as much as it gained itself.
    differ = float(np.var(gains, ddof=1)) if len(gains) > 1 else float(gains[0] ** 2)
    return AtEnd(
        value + float(np.mean(gains)), math.sqrt(own + differ * (1 + 1 / len(gains))), max(1.0, len(gains) - 1.0)
    )
