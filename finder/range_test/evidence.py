"""Does a curve over learning rates improve by more than its own noise? Pure, and the same answer every time.

A noisy curve always has a steepest point, so a suggestion is only worth reading where the curve as a whole could not
well be noise. What noise looks like is taken from the curve itself: were the rates without effect, its values could
have come in any order, so they are put into random orders, and the improvement that is seen is compared with the
improvement that appears among those (a permutation test: Fisher, "The Design of Experiments", 1935). Nothing is assumed
about how the values are distributed; single-episode returns have long tails.

Any order would do only for values that owe nothing to their neighbours. Losses of the gradient steps on one rollout
share its level. So where there are many rollouts each becomes one value, and where there are few only the order
within a rollout is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finder.range_test.curve import Floats, Numbers

__all__ = ["LEVEL", "improvement", "p_value"]

LEVEL = 0.01
"""A curve is believed when noise would improve as much in less than this share of cases."""

_N_ORDERS = 999
_MOST_POINTS = 100
"""Longer curves are averaged to this many points."""

_MANY_SOURCES = 20
_ENOUGH_VALUES = 10


def improvement(goodness: Floats) -> Floats:
    """Measure how clearly values rise from a first stretch to a second one right after it.

    Of all ways to cut the beginning of a curve into two stretches, the one with the clearest difference counts: the
    mean of the n values of the second less that of the m values of the first, over sqrt(1/m + 1/n). What comes after
    the second is left out, so that divergence at large rates hides no rise before it.

    Args:
        goodness: Curves, larger is better, [R, M] with M >= 2.

    Returns:
        The measure of each, [R], in the unit of the values.
    """
    n_curves, n_values = goodness.shape
    sums = np.concatenate([np.zeros((n_curves, 1)), np.cumsum(goodness, axis=1)], axis=1)  # [R, M + 1]
    clearest = np.full(n_curves, -np.inf)
    for first in range(1, n_values):
        seconds = np.arange(1, n_values - first + 1)  # every length of the second stretch
        means = (sums[:, first + 1 :] - sums[:, first : first + 1]) / seconds  # [R, M - first]
        rises = (means - sums[:, first : first + 1] / first) / np.sqrt(1.0 / first + 1.0 / seconds)
        clearest = np.maximum(clearest, rises.max(axis=1))
    return clearest


def p_value(values: Numbers, *, maximize: bool, sources: Sequence[int] | None = None) -> float:
    """Estimate how often noise alone would improve as clearly as these values do.

    Args:
        values: Of ascending rates, [M]; those that are not finite are left out.
        maximize: Whether larger values are better.
        sources: What each value was measured on, ascending, [M]: values with equal numbers share a rollout. By default
            each has a source of its own.

    Returns:
        In (0, 1]; 1 where there is too little to compare.
    """
    given = np.asarray(values, dtype=np.float64)
    numbers = np.arange(len(given)) if sources is None else np.asarray(sources)
    finite = np.isfinite(given)
    goodness = given[finite] if maximize else -given[finite]
    _, source = np.unique(numbers[finite], return_inverse=True)
    parts = [_shortened(part) for part in _exchangeable(goodness, source)]
    parts = [(part - part.mean()) / part.std() for part in parts if len(part) > 1 and np.ptp(part) > 0]
    if not parts:
        return 1.0
    rng = np.random.default_rng(0)
    seen, by_noise = -np.inf, np.full(_N_ORDERS, -np.inf)
    for part in parts:
        orders = rng.permuted(np.tile(part, (_N_ORDERS, 1)), axis=1)
        seen = max(seen, float(improvement(part[None])[0]))
        by_noise = np.maximum(by_noise, improvement(orders))
    return float((1 + np.count_nonzero(by_noise >= seen - 1e-9)) / (1 + _N_ORDERS))


def _exchangeable(goodness: Floats, source: np.ndarray) -> list[Floats]:
    """Parts within which the order says nothing unless the rates have an effect."""
    if len(goodness) == 0:
        return []
    sizes = np.bincount(source)
    if len(sizes) >= _MANY_SOURCES or sizes.max() < _ENOUGH_VALUES:
        return [np.bincount(source, goodness) / sizes]
    return [goodness[source == number] for number in np.flatnonzero(sizes >= _ENOUGH_VALUES)]


def _shortened(values: Floats) -> Floats:
    if len(values) <= _MOST_POINTS:
        return values
    return np.array([stretch.mean() for stretch in np.array_split(values, _MOST_POINTS)])
