"""The curve of values over learning rates: smoothed, and where its peak lies. Pure functions over numbers.

Neighbouring rates do about as well, so they say something about each other. What a rate is worth is therefore read from
all rates nearby, the more the nearer they are, and from its own seeds beside them. Where the curve is highest is
uncertain because values are: it is found for many curves that the seeds might as well have given. Replayed over tables
of finished runs, 95% of these peaks hold the best rate about as often (`benchmarks/pick.md`).

A curve that is smoothed over `BANDWIDTH` does not place its peak more precisely than that. Where rates that were tried
lie close together, their order is noise, and the best rate may as well be one beside them that was not tried. So the
interval reaches that far on both sides, unless a rate that is clearly worse lies nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from studies.statistics.intervals import Estimates

Array = np.ndarray[Any, Any]

BANDWIDTH = 0.3
"""Decades within which rates say something about each other: half a decade away it is a quarter as much."""

CURVE_SEEDS = 2.0
"""Seeds of its own that the curve at a rate counts for."""

_DRAWS = 2_000

_RARE = 0.025
"""Share of the curves in which a rate may be as good as the best one and still be called clearly worse."""


class Peak(NamedTuple):
    """Decimal logarithms of the rates between which the curve is highest.

    Attributes:
        middle: The median.
        low: The lower end of 95%.
        high: The upper end.
    """

    middle: float
    low: float
    high: float


def log10_rate(rate: object) -> float:
    """Returns the decimal logarithm of a learning rate, NaN for what is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not rate > 0:
        return math.nan
    return math.log10(rate)


def smoothing(positions: Sequence[float]) -> Array:
    """Returns [C, C] how much each rate says of each, rows sum to 1.

    Args:
        positions: [C] decimal logarithms of the rates.
    """
    at = np.asarray(positions, np.float64)
    weights = np.exp(-0.5 * ((at[:, None] - at[None, :]) / BANDWIDTH) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def blended(own: Any, curve: Any, n_seeds: Any) -> Any:
    """Returns what a rate is worth by its own seeds and by the curve, which counts for `CURVE_SEEDS` of them.

    With few seeds the neighbours say more than they do; with many, a narrow peak is not smoothed away.

    Args:
        own: [...] mean over the seeds of each rate.
        curve: [...] what the curve says there.
        n_seeds: [...] seeds of each.
    """
    return (n_seeds * own + CURVE_SEEDS * curve) / (n_seeds + CURVE_SEEDS)


def peak(estimates: Estimates, positions: Sequence[float], fixed: Sequence[tuple[float, float]] = ()) -> Peak:
    """Returns where the curve is highest.

    Args:
        estimates: What is known of C rates.
        positions: [C] their decimal logarithms, all different.
        fixed: Position and value of further rates that are part of the curve, but cannot be its peak.
    """
    at = np.array([*positions, *(position for position, _ in fixed)])
    if len(at) == 1:
        return Peak(*np.repeat(at, 3).tolist())
    rng = np.random.default_rng(0)
    shape = (_DRAWS, len(estimates.centers))
    drawn = estimates.centers + estimates.errors * rng.standard_t(estimates.df, size=shape)
    curves = np.hstack([drawn, np.tile([value for _, value in fixed], (_DRAWS, 1))])
    smooth = (curves @ smoothing(at.tolist()).T)[:, : shape[1]]
    highest = np.argmax(smooth, axis=1)
    lows, highs = _cells(at, shape[1])
    places = rng.uniform(lows[highest], highs[highest])
    low, middle, high = np.quantile(places, [0.025, 0.5, 0.975])
    reached = _reach(smooth, at, lows, highs)
    return Peak(float(middle), min(float(low), reached[0]), max(float(high), reached[1]))


def _cells(at: Array, n: int) -> tuple[Array, Array]:
    """[C] the lower and upper ends of the parts of the axis for which each rate stands: halfway to its neighbours.

    Args:
        at: [C] positions.
        n: How many of these can be the peak, the first ones. Beyond the last rate such a one stands for as much as on
            its other side, and at least for the bandwidth.
    """
    order = np.argsort(at)
    between = (at[order][:-1] + at[order][1:]) / 2
    lows, highs = np.empty_like(at), np.empty_like(at)
    lows[order[1:]], highs[order[:-1]] = between, between
    first, last = order[0], order[-1]
    lows[first], highs[last] = 2 * at[first] - highs[first], 2 * at[last] - lows[last]
    if first < n:
        lows[first] = min(lows[first], at[first] - BANDWIDTH)
    if last < n:
        highs[last] = max(highs[last], at[last] + BANDWIDTH)
    return lows, highs


def _reach(smooth: Array, at: Array, lows: Array, highs: Array) -> tuple[float, float]:
    """How far the interval reaches at least: the bandwidth around the best rate, or to one that is clearly worse.

    Args:
        smooth: [D, n] the curves at the rates that can be the peak.
        at: [C] positions of these, then of those that cannot be the peak.
        lows: [C] lower ends of the rates' cells.
        highs: [C] their upper ends.
    """
    best = int(np.argmax(smooth.mean(axis=0)))
    worse = np.ones(len(at), bool)
    worse[: smooth.shape[1]] = np.mean(smooth >= smooth[:, [best]], axis=0) < _RARE
    order = np.argsort(at)
    start = int(np.flatnonzero(order == best)[0])
    first = last = start
    while first > 0 and not worse[order[first - 1]]:
        first -= 1
    while last + 1 < len(at) and not worse[order[last + 1]]:
        last += 1
    return float(max(lows[order[first]], at[best] - BANDWIDTH)), float(min(highs[order[last]], at[best] + BANDWIDTH))
