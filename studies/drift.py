"""How the best learning rate moves as runs get longer. Measured on finished runs (`benchmarks/pick.md`).

A high rate learns fast at first and is overtaken later, so a short run favours rates that are too high.
"""

from __future__ import annotations

import math

DRIFT = -0.75
"""Decades that the best rate moves for each decade of environment steps more."""

DRIFT_ERROR = 0.5
"""Standard deviation of `DRIFT` over tasks and optimizers, from smoothed curves of the tables on which it was found.

Without smoothing it is larger, because best rates jump; intervals that are made with this one hold.
"""


def drift(share: float) -> tuple[float, float]:
    """Returns by how many decades the best rate still moves, and the standard deviation of that.

    Args:
        share: How much of the run has been seen, above 0; more than 1 where the run that follows is the shorter one.
    """
    distance = -math.log10(share)
    return DRIFT * distance, DRIFT_ERROR * abs(distance)
