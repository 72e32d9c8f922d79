"""A permutation test: does a curve over learning rates improve by more than its noise?

A noisy curve always has a steepest point, so a suggestion is useful only if the curve as a whole is unlikely to be
noise. If the rates had no effect, the values could be in any order. The improvement of the curve is therefore compared
with the improvement of random permutations of its values (Fisher, "The Design of Experiments", 1935). No distribution
is assumed; returns of single episodes have long tails. The random generator is seeded, so that results are
reproducible.

Many curves are far worse, or noisier, at large rates than anywhere else. Improvements are therefore measured in units
of the noise where they are, so that what comes after them does not matter. Outliers for the worse (Tukey,
"Exploratory Data Analysis", 1977) are moved to the limit of what is usual.

Permutations assume independent values, but the losses of the gradient steps on one rollout share its level. If there
are many rollouts, each is averaged to one value; if there are few, only values within a rollout are permuted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finder.range_test.curve import Floats, Numbers

LEVEL = 0.01
"""Significance level: a curve is used if noise improves as much in at most this share of cases."""

_N_ORDERS = 999
_MOST_POINTS = 100
"""Longer curves are averaged to this many points."""

_REACH = 1.5
"""Interquartile ranges below the lower quartile, beyond which a value is an outlier."""

_FARTHEST = 1e6
"""Largest distance of a worse value from the better quartile, in distances of the best tenth from it: so that sums are
exact."""

_NEIGHBOURS = 5
"""Fewest values from which the variance around a value is computed; of many values, a tenth of them."""

_MANY_SOURCES = 20
_ENOUGH_VALUES = 10


def improvement(goodness: Floats) -> Floats:
    """Measure how clearly values rise from a first segment to a second one directly after it.

    The measure is the maximum over all splits of the beginning of a curve into two segments: the mean of the values of
    the second minus the mean of the values of the first, divided by the standard deviation of this difference if the
    variance of each value is that of the values around it. Values after the second segment are ignored.

    Args:
        goodness: Curves, larger is better, [R, M] with M >= 2.

    Returns:
        The measure of each, [R].
    """
    n_curves, n_values = goodness.shape
    sums, variances = (_cumulative(each) for each in (goodness, _local_variances(goodness)))  # [R, M + 1]
    clearest = np.full(n_curves, -np.inf)
    for first in range(1, n_values):
        seconds = np.arange(1, n_values - first + 1)  # every length of the second segment
        means = (sums[:, first + 1 :] - sums[:, first : first + 1]) / seconds  # [R, M - first]
        rises = means - sums[:, first : first + 1] / first
        variance = (variances[:, first + 1 :] - variances[:, first : first + 1]) / seconds**2
        variance += variances[:, first : first + 1] / first**2
        varied = variance > 0  # else all values are equal
        measures = np.where(varied, rises / np.sqrt(np.where(varied, variance, 1.0)), 0.0)
        clearest = np.maximum(clearest, measures.max(axis=1))
    return clearest


def _cumulative(values: Floats) -> Floats:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _local_variances(values: Floats) -> Floats:
    """Return the variance of the values around each value, at the ends of the first and the last ones: [R, M]."""
    n_values = values.shape[1]
    width = min(n_values, max(_NEIGHBOURS, n_values // 10))
    variances = np.lib.stride_tricks.sliding_window_view(values, width, axis=1).var(axis=2, ddof=1)
    return np.asarray(variances[:, np.clip(np.arange(n_values) - width // 2, 0, n_values - width)])


def p_value(values: Numbers, *, maximize: bool, sources: Sequence[int] | None = None) -> float:
    """Estimate the probability that noise improves as clearly as these values.

    Args:
        values: Values of ascending rates, [M]; values that are not finite are ignored.
        maximize: Whether larger values are better.
        sources: Number of the rollout of each value, ascending, [M]. Defaults to a rollout for each value.

    Returns:
        The p-value in (0, 1]; 1 if there are too few values.
    """
    given = np.asarray(values, dtype=np.float64)
    numbers = np.arange(len(given)) if sources is None else np.asarray(sources)
    finite = np.isfinite(given)
    goodness = given[finite] if maximize else -given[finite]
    _, source = np.unique(numbers[finite], return_inverse=True)
    parts = [_without_outliers(_averaged(part)) for part in _exchangeable(goodness, source)]
    parts = [part - np.quantile(part, 0.75) for part in parts if len(part) > 1 and np.ptp(part) > 0]
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
    """Return groups of values that are exchangeable if the rates have no effect."""
    if len(goodness) == 0:
        return []
    sizes = np.bincount(source)
    if len(sizes) >= _MANY_SOURCES or sizes.max() < _ENOUGH_VALUES:
        return [np.bincount(source, goodness) / sizes]
    return [goodness[source == number] for number in np.flatnonzero(sizes >= _ENOUGH_VALUES)]


def _without_outliers(goodness: Floats) -> Floats:
    """Return values of which none is worse than the lower quartile by more than `_REACH` interquartile ranges."""
    low, high, best = np.quantile(goodness, (0.25, 0.75, 0.9))
    limits = [low - _REACH * (high - low), high - _FARTHEST * (best - high) if best > high else -np.inf]
    return np.asarray(np.maximum(goodness, max(limits)))


def _averaged(values: Floats) -> Floats:
    if len(values) <= _MOST_POINTS:
        return values
    return np.array([stretch.mean() for stretch in np.array_split(values, _MOST_POINTS)])
