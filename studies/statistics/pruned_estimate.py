"""Estimates of the final value of pruned runs, as pure functions over numbers.

The runs that finished continued to learn after the pruning, so a value from the middle of a run is no estimate of its
end. The finished runs show how much is still gained from there, and with which variation. This holds among runs of one
optimizer and agent only: SGD may still improve where Adam has converged, or the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from studies.statistics.intervals import estimate
from studies.statistics.values import mean_of_seeds

LEVEL = 0.99
"""Confidence of the comparison of the pruned runs of a rung with all runs that reached it."""


class FinalEstimate(NamedTuple):
    """Estimated final value of a pruned run.

    Attributes:
        value: Expected value.
        error: Standard error of the value.
        df: Degrees of freedom of the error.
    """

    value: float
    error: float
    df: float


def estimate_final(
    seed_values: Sequence[float], survivors: Sequence[tuple[float, float]], *, same_kind: bool = True
) -> FinalEstimate:
    """Return the estimated final value of a candidate that was pruned.

    Args:
        seed_values: Values of its seeds when it was pruned, at least one, finite.
        survivors: For each finished run, its value at that step and its final value. At least one.
        same_kind: Whether the survivors share optimizer and agent with the candidate. If not, its gain is unknown:
            nothing is added, and the error covers the gains of the survivors. Defaults to `True`.
    """
    value = float(mean_of_seeds(seed_values))
    gains = np.array([end - there for there, end in survivors])
    n = len(seed_values)
    own = float(np.var(seed_values, ddof=1)) / n if n > 1 else 0.0
    if not same_kind:
        return FinalEstimate(value, math.sqrt(own + float(np.mean(gains**2))), 1.0)
    # One survivor carries no information about the variation of gains: its own gain is used.
    differ = float(np.var(gains, ddof=1)) if len(gains) > 1 else float(gains[0] ** 2)
    return FinalEstimate(
        value + float(np.mean(gains)), math.sqrt(own + differ * (1 + 1 / len(gains))), max(1.0, len(gains) - 1.0)
    )


def clearly_worse(seed_values: Sequence[Sequence[float]]) -> list[bool]:
    """Return for each candidate whether it was distinguishable from the best one, at a step that all have reached.

    Args:
        seed_values: Values of the seeds of each candidate at this step, higher is better, finite.
    """
    if len(seed_values) < 2 or max(map(len, seed_values)) < 2:
        return [False] * len(seed_values)
    return [not may_be for may_be in estimate(seed_values).may_be_best(LEVEL)]
