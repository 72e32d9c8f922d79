"""Smoothed curve of values over learning rates, and the position of its peak. Pure functions over numbers.

Neighbouring rates have similar values. The value of a rate is therefore estimated from all rates nearby, weighted by
distance, and from its own seeds. The position of the peak is uncertain because values are: it is computed for many
curves drawn from the estimates. Replayed over tables of finished runs, the 95% intervals of these peaks contain the
best rate about that often (`benchmarks/pick.md`).

A curve smoothed over `BANDWIDTH` cannot place its peak more precisely than that. Where tried rates lie close together,
their order is noise, and the best rate may be an untried one beside them. The interval therefore extends by the
bandwidth on both sides, unless a clearly worse rate lies nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from studies.statistics.intervals import Estimates
from studies.statistics.values import usual_range

Array = np.ndarray[Any, Any]

BANDWIDTH = 0.3
"""Standard deviation of the smoothing kernel in decades: half a decade away, the weight is a quarter."""

ALIKE = 0.01
"""Share of the range of all candidates within which values are equally good."""

CURVE_SEEDS = 2.0
"""Number of seeds that the curve counts for, beside the seeds of a rate."""

_DRAWS = 2_000

_RARE = 0.025
"""Share of the drawn curves in which a rate may match the best one and still be called clearly worse."""


class Peak(NamedTuple):
    """Position of the peak of a curve, in decimal logarithms of the rate.

    Attributes:
        middle: Median.
        low: Lower end of the 95% interval.
        high: Upper end of the 95% interval.
    """

    middle: float
    low: float
    high: float


def log10_rate(rate: object) -> float:
    """Return the decimal logarithm of a learning rate, NaN for any other value."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not rate > 0:
        return math.nan
    return math.log10(rate)


def smoothing(positions: Sequence[float]) -> Array:
    """Return [C, C] smoothing weights of the rates; rows sum to 1.

    Args:
        positions: [C] decimal logarithms of the rates.
    """
    at = np.asarray(positions, np.float64)
    weights = np.exp(-0.5 * ((at[:, None] - at[None, :]) / BANDWIDTH) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def blended(own: Any, curve: Any, n_seeds: Any) -> Any:
    """Return the values of rates from their own seeds and from the curve, which counts for `CURVE_SEEDS` seeds.

    With few seeds, neighbours dominate; with many, a narrow peak is not smoothed away.

    Args:
        own: [...] mean over the seeds of each rate.
        curve: [...] value of the curve at each rate.
        n_seeds: [...] seeds of each rate.
    """
    return (n_seeds * own + CURVE_SEEDS * curve) / (n_seeds + CURVE_SEEDS)


def peak(estimates: Estimates, positions: Sequence[float], fixed: Sequence[tuple[float, float]] = ()) -> Peak:
    """Return the position of the peak of the curve.

    Args:
        estimates: Estimates of C rates.
        positions: [C] decimal logarithms of the rates, all different.
        fixed: Position and value of further rates that are part of the curve but cannot be its peak.
    """
    at = np.array([*positions, *(position for position, _ in fixed)])
    if len(at) == 1:
        return Peak(*np.repeat(at, 3).tolist())
    rng = np.random.default_rng(0)
    shape = (_DRAWS, len(estimates.centers))
    drawn = estimates.centers + estimates.errors * rng.standard_t(estimates.df, size=shape)
    curves = np.hstack([drawn, np.tile([value for _, value in fixed], (_DRAWS, 1))])
    smooth = (curves @ smoothing(at.tolist()).T)[:, : shape[1]]
    values = np.append(estimates.centers, [value for _, value in fixed])
    alike = ALIKE * float(usual_range(values) or np.ptp(values))  # all but the worst may be equal
    highest = _one_of_the_highest(smooth, alike)
    lows, highs = _cells(at, shape[1])
    places = rng.uniform(lows[highest], highs[highest])
    low, middle, high = np.quantile(places, [0.025, 0.5, 0.975])
    reached = _reach(smooth, at, lows, highs, alike)
    return Peak(float(middle), min(float(low), reached[0]), max(float(high), reached[1]))


def _one_of_the_highest(smooth: Array, alike: float) -> Array:
    """Return [D] the position of the peak of each curve: on a plateau a random one, as its rates are equally good.

    Args:
        smooth: [D, n] curves.
        alike: Difference below which values are equally good.
    """
    on_top = smooth >= smooth.max(axis=1, keepdims=True) - alike
    lots = np.random.default_rng(1).random(smooth.shape)
    return np.asarray(np.argmax(np.where(on_top, lots, -1.0), axis=1))


def _cells(at: Array, n: int) -> tuple[Array, Array]:
    """Return [C] lower and upper ends of the cells of the rates: each reaches halfway to its neighbours.

    Args:
        at: [C] positions.
        n: Number of positions, the first ones, that can be the peak. The cell of an outermost one reaches as far
            outwards as inwards, and at least by the bandwidth.
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


def _reach(smooth: Array, at: Array, lows: Array, highs: Array, alike: float) -> tuple[float, float]:
    """Return the minimum extent of the interval: the bandwidth, or less up to a clearly worse rate.

    Args:
        smooth: [D, n] curves at the rates that can be the peak.
        at: [C] positions of these rates, then of those that cannot be the peak.
        lows: [C] lower ends of the cells.
        highs: [C] upper ends of the cells.
        alike: Difference below which values are equally good.
    """
    best = int(np.argmax(smooth.mean(axis=0)))
    worse = np.ones(len(at), bool)
    worse[: smooth.shape[1]] = np.mean(smooth >= smooth[:, [best]] - alike, axis=0) < _RARE
    order = np.argsort(at)
    start = int(np.flatnonzero(order == best)[0])
    first = last = start
    while first > 0 and not worse[order[first - 1]]:
        first -= 1
    while last + 1 < len(at) and not worse[order[last + 1]]:
        last += 1
    return float(max(lows[order[first]], at[best] - BANDWIDTH)), float(min(highs[order[last]], at[best] + BANDWIDTH))
