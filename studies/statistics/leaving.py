"""What those that left a search early would have been worth at the end. Pure functions over numbers.

Runs continue to learn after the others have left, so a value from the middle of a run is no value of its end. Those
that came to their ends say by how much runs still gain from there, and how differently. That holds among runs of one
optimizer and agent only: SGD may still rise where Adam's runs are at their best already, or the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from studies.statistics.intervals import estimate
from studies.statistics.values import iqm

LEVEL = 0.99
"""Confidence with which one that left was told from the others, all together; there are several rungs to be told at."""


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


def at_end(seed_values: Sequence[float], survivors: Sequence[tuple[float, float]], *, same_kind: bool = True) -> AtEnd:
    """Returns what a candidate would have been worth, from where it left.

    Args:
        seed_values: What each of its seeds was worth there, at least one, finite.
        survivors: Of each that came to its end: what it was worth there, and at its end. At least one.
        same_kind: Whether these have its optimizer and agent. Where they do not, it is not known whether it gains what
            they gain: nothing is added, and the error reaches as far as their gains. Defaults to `True`.
    """
    value = float(iqm(seed_values))
    gains = np.array([end - there for there, end in survivors])
    n = len(seed_values)
    own = float(np.var(seed_values, ddof=1)) / n if n > 1 else 0.0
    if not same_kind:
        return AtEnd(value, math.sqrt(own + float(np.mean(gains**2))), 1.0)
    # One survivor says nothing of how gains differ: as much as it gained itself.
    differ = float(np.var(gains, ddof=1)) if len(gains) > 1 else float(gains[0] ** 2)
    return AtEnd(
        value + float(np.mean(gains)), math.sqrt(own + differ * (1 + 1 / len(gains))), max(1.0, len(gains) - 1.0)
    )


def told_apart(seed_values: Sequence[Sequence[float]]) -> list[bool]:
    """Returns of each candidate whether it was told from the best one, at a mark to which all of them have come.

    Args:
        seed_values: What the seeds of each candidate were worth there, higher is better, finite.
    """
    if len(seed_values) < 2 or max(map(len, seed_values)) < 2:
        return [False] * len(seed_values)
    return [not may_be for may_be in estimate(seed_values).may_be_best(LEVEL)]
