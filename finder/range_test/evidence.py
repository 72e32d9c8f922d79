"""A permutation test: does a curve over learning rates improve by more than its noise?

A noisy curve always has a steepest point, so a suggestion is useful only if the curve as a whole is unlikely to be
noise. If the rates had no effect, the values could be in any order. The improvement of the curve is therefore compared
with the improvement of random permutations of its values (Fisher, "The Design of Experiments", 1935). No distribution
is assumed; returns of single episodes have long tails. The random generator is seeded, so that results are
reproducible.

Many curves are far worse at large rates than anywhere else, and permutations of such values improve by more than any
curve does before them. So an improvement is measured twice: in standard deviations of all values, and in those of the
values up to its end; the p-value is twice the smaller one of both (Bonferroni). Outliers for the worse (Tukey,
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

_ROUNDING = 1e-12
"""Variance, in squares of the mean, below which values are equal but for rounding."""

_MANY_SOURCES = 20
_ENOUGH_VALUES = 10


def improvement(goodness: Floats) -> Floats:
    """Measure how clearly values rise from a first segment to a second one directly after it.

    The measure is the maximum over all splits of the beginning of a curve into two segments: the mean of the n values
    of the second minus the mean of the m values of the first, divided by sqrt(1/m + 1/n). Values after the second
    segment are ignored, so that divergence at large rates does not hide an earlier rise.

    Args:
        goodness: Curves, larger is better, [R, M] with M >= 2.

    Returns:
        The measure of each in the unit of the values, and in standard deviations of the values of both segments,
        [R, 2]. The latter is at most the square root of the number of these values.
    """
    n_curves, n_values = goodness.shape
    sums, squares = (
        np.concatenate([np.zeros((n_curves, 1)), np.cumsum(each, axis=1)], axis=1) for each in (goodness, goodness**2)
    )  # [R, M + 1]
    means = sums[:, 1:] / np.arange(1, n_values + 1)  # of the first values, [R, M]
    variances = squares[:, 1:] / np.arange(1, n_values + 1) - means**2
    varied = variances > _ROUNDING * means**2
    per_deviation = np.where(varied, 1.0 / np.sqrt(np.where(varied, variances, 1.0)), 0.0)
    clearest = np.full((n_curves, 2), -np.inf)
    for first in range(1, n_values):
        seconds = np.arange(1, n_values - first + 1)  # every length of the second segment
        later = (sums[:, first + 1 :] - sums[:, first : first + 1]) / seconds  # [R, M - first]
        rises = (later - means[:, first - 1 : first]) / np.sqrt(1.0 / first + 1.0 / seconds)
        clearest[:, 0] = np.maximum(clearest[:, 0], rises.max(axis=1))
        clearest[:, 1] = np.maximum(clearest[:, 1], (rises * per_deviation[:, first:]).max(axis=1))
    return clearest


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
    # Around the better values, so that variances of the values before a divergence are exact.
    parts = [(part - np.quantile(part, 0.75)) / part.std() for part in parts if len(part) > 1 and np.ptp(part) > 0]
    if not parts:
        return 1.0
    rng = np.random.default_rng(0)
    seen, by_noise = np.full(2, -np.inf), np.full((_N_ORDERS, 2), -np.inf)
    for part in parts:
        orders = rng.permuted(np.tile(part, (_N_ORDERS, 1)), axis=1)
        seen = np.maximum(seen, improvement(part[None])[0])
        by_noise = np.maximum(by_noise, improvement(orders))
    p_values = (1 + np.count_nonzero(by_noise >= seen - 1e-9, axis=0)) / (1 + _N_ORDERS)
    return min(1.0, 2.0 * float(p_values.min()))


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
    low, high = np.quantile(goodness, (0.25, 0.75))
    return np.asarray(np.maximum(goodness, low - _REACH * (high - low)))


def _averaged(values: Floats) -> Floats:
    if len(values) <= _MOST_POINTS:
        return values
    return np.array([stretch.mean() for stretch in np.array_split(values, _MOST_POINTS)])
