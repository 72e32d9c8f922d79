"""Estimates from a few seeds: means, intervals, and comparisons with the best.

Three seeds of one candidate carry little information about its spread: three runs that all reached the greatest return
have a spread of 0 and an interval without width. The candidates of one study carry more together. The variance of each
candidate is therefore moderated, as in Smyth (2004, "Linear models and empirical Bayes methods") for a few arrays of
many genes: it is shrunk towards the variance of candidates with similar values, which count for up to `PRIOR_DF`
degrees of freedom.

Where some runs collapse, the mean and the variance of three seeds depend on each other: the candidate whose runs all
went well has the highest mean and no variance, and its neighbours by value are others that were as lucky. Values within
two standard errors are therefore similar (`_REACH`), so that candidates with and without a collapse among their seeds
inform each other, and the lower end of an interval allows for a collapse that no seed of its own has shown.
Coverage and width for several kinds of returns are in `benchmarks/results/intervals.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage, stats

from studies.statistics.values import TRIMMED_FROM, mean_of_seeds, usual_low, usual_range

Array = np.ndarray[Any, Any]

PRIOR_DF = 6.0
"""Greatest number of degrees of freedom that other candidates contribute to a variance."""

_REACH = 2.0
"""Standard errors of a mean within which two values are similar."""

_COLLAPSE_DF = 2.0
"""Degrees of freedom of the variance by collapses, for the lower end of an interval."""

_COLLAPSES = 1.0
"""Collapsed runs that a study is assumed to have had beside those that it saw."""

_NOTHING = float(np.finfo(np.float64).tiny)

_DRAWS = 4_000

_NEAR = 0.1
"""Share of the range of all candidates within which two values are similar."""

_FAR = 12.0
"""Standard errors beyond which a candidate is not compared."""

_SIMULATED = 200
"""Candidates near the best up to which critical values are simulated; beyond, a conservative bound is used."""

_COMPARED = 1_000
"""Candidates up to which every pair is compared; beyond, a grid is used."""

_CELLS = 64
"""Grid cells per width of similarity."""


def probability_of_improvement(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the probability that a run of one candidate beats a run of another (Agarwal et al. 2021).

    Ties count half.

    Args:
        values: Values of the seeds of one candidate, higher is better.
        others: Values of the seeds of the other.
    """
    difference = np.subtract.outer(np.asarray(values, np.float64), np.asarray(others, np.float64))
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Estimates of several candidates, by position. Higher is better.

    Attributes:
        centers: [C] means over seeds.
        errors: [C] standard errors of the centers.
        df: [C] degrees of freedom of the errors.
        counts: [C] numbers of seeds.
        fall_errors: [C] standard errors that include a collapse which no seed has shown; None if they are unknown,
            which leaves intervals symmetric.
        fall_df: [C] degrees of freedom of these errors.
    """

    centers: Array
    errors: Array
    df: Array
    counts: Array
    fall_errors: Array | None = None
    fall_df: Array | None = None

    def interval(self, level: float = 0.95, *, collapses: bool = True) -> tuple[Array, Array]:
        """Return [C] lower and upper ends of the intervals of the expected means at this confidence.

        Args:
            level: Confidence. Defaults to 95%.
            collapses: Whether lower ends allow for collapses that no seed has shown. Such collapses are as likely for
                candidates that are compared, so differences do without. Defaults to `True`.
        """
        reach = stats.t.ppf(0.5 + level / 2, self.df) * self.errors
        if not collapses or self.fall_errors is None or self.fall_df is None:
            return self.centers - reach, self.centers + reach
        fall = stats.t.ppf(0.5 + level / 2, self.fall_df) * self.fall_errors
        return self.centers - np.maximum(reach, fall), self.centers + reach

    def of(self, positions: Sequence[int]) -> Estimates:
        """Return the estimates of some of the candidates, by position."""
        own = list(positions)
        return Estimates(
            centers=self.centers[own],
            errors=self.errors[own],
            df=self.df[own],
            counts=self.counts[own],
            fall_errors=None if self.fall_errors is None else self.fall_errors[own],
            fall_df=None if self.fall_df is None else self.fall_df[own],
        )

    @cached_property
    def _noise(self) -> Array:
        """[D, C] draws of the errors of the centers, always the same. Fewer draws for many candidates, for speed."""
        size = (max(_DRAWS // 4, min(_DRAWS, _DRAWS * 15 // len(self.centers))), len(self.centers))
        return np.asarray(self.errors * stats.t.rvs(self.df, size=size, random_state=np.random.default_rng(0)))

    def probability_best(self) -> Array:
        """Return [C] probabilities that a candidate has the highest expected value; equal ones share it."""
        drawn = self.centers + self._noise
        highest = drawn == drawn.max(axis=1, keepdims=True)
        return np.asarray((highest / highest.sum(axis=1, keepdims=True)).mean(axis=0))

    def may_be_best(self, level: float = 0.95) -> Array:
        """Return [C] bool: candidates that cannot be distinguished from the best.

        These are the multiple comparisons with the best of Hsu (1981), with simulated critical values: for any number
        of candidates, the probability that one of several equals is singled out is at most 1 - `level`.
        """
        least = stats.t.ppf(1 - (1 - level) / 2 / max(1, len(self.centers) - 1), self.df)  # is large with two seeds
        reach = np.maximum(_FAR, least) * self.errors
        near = np.flatnonzero(self.centers + reach >= np.max(self.centers - reach))  # others need no simulation
        if len(near) > _SIMULATED:
            return self._may_be_best_of_many(near, level)
        noise = self._noise[:, near]  # [D, N]
        centers, errors = self.centers[near], self.errors[near]
        kept = np.zeros(len(self.centers), bool)
        for j, position in enumerate(near):
            others = np.arange(len(near)) != j
            if not others.any():
                break
            width = np.maximum(np.hypot(errors[j], errors[others]), _NOTHING)
            excess = (noise[:, others] - noise[:, [j]]) / width
            critical = np.quantile(excess.max(axis=1), (1 + level) / 2)
            kept[position] = bool(np.all(centers[others] - centers[j] <= critical * width))
        kept[np.argmax(self.centers)] = True
        return kept

    def _may_be_best_of_many(self, near: Array, level: float) -> Array:
        """Return the same with a Bonferroni bound in place of the simulation, whose cost grows quadratically."""
        kept = np.zeros(len(self.centers), bool)
        centers, errors = self.centers[near], self.errors[near]
        critical = stats.t.ppf(1 - (1 - level) / 2 / (len(near) - 1), self.df[near].min())
        for j, position in enumerate(near):
            width = np.hypot(errors[j], errors)
            kept[position] = bool(np.all(centers - centers[j] <= critical * width))
        kept[np.argmax(self.centers)] = True
        return kept

    def seeds_to_settle(self, level: float = 0.95) -> int | None:
        """Return the number of seeds per candidate that would distinguish the best one from all that are level with it.

        Args:
            level: See `may_be_best`.

        Returns:
            The number of seeds, existing ones included, assuming that means and spreads stay as they are; None if two
            candidates are exactly equal.
        """
        first = int(np.argmax(self.centers))
        rivals = np.flatnonzero(self.may_be_best(level))
        needed = int(self.counts[first])
        for rival in rivals[rivals != first]:
            gap = self.centers[first] - self.centers[rival]
            if gap <= 0:
                return None
            pair = [first, rival]
            of_one_seed = math.sqrt(np.sum(self.errors[pair] ** 2 * self.counts[pair]))
            probability = 1 - (1 - level) / 2 / max(1, len(rivals) - 1)
            needed = max(needed, int(self.counts[pair].min()) + 1)  # the existing seeds do not settle it
            # More seeds have more degrees of freedom. Without end of these, the normal distribution needs the fewest.
            needed = max(needed, math.ceil((stats.norm.ppf(probability) * of_one_seed / gap) ** 2))
            while stats.t.ppf(probability, self._df_with(needed, pair)) * of_one_seed / math.sqrt(needed) > gap:
                needed += 1 + needed // 100
        return needed

    def _df_with(self, n_seeds: int, pair: Sequence[int]) -> float:
        """Return the degrees of freedom of two candidates with so many seeds each."""
        return float((self.df[pair] + n_seeds - self.counts[pair]).min())


def estimate(seed_values: Sequence[Sequence[float]]) -> Estimates:
    """Return estimates of candidates from the values of their seeds, with moderated variances.

    Args:
        seed_values: Values of the seeds of each candidate, at least one each, finite, higher is better.
    """
    arrays = [np.asarray(values, np.float64) for values in seed_values]
    counts = np.array([len(values) for values in arrays], np.float64)
    centers = np.array([mean_of_seeds(values) for values in arrays])
    variances = np.array([values.var(ddof=1) if len(values) > 1 else 0.0 for values in arrays])
    usual = centers >= usual_low(centers)
    worst = min(float(own.min()) for own, is_usual in zip(arrays, usual, strict=True) if is_usual)
    moderated = _moderated(centers, variances, counts - 1, worst)
    return Estimates(
        centers=centers,
        errors=np.sqrt(moderated.variances / counts),
        df=np.maximum(moderated.df, 1.0),
        counts=counts,
        fall_errors=np.sqrt(moderated.fall_variances / counts),
        fall_df=np.maximum(moderated.fall_df, 1.0),
    )


class _Moderated(NamedTuple):
    """[C] moderated variances and their degrees of freedom, without and with collapses that no seed has shown."""

    variances: Array
    df: Array
    fall_variances: Array
    fall_df: Array


def _moderated(centers: Array, variances: Array, df: Array, worst: float) -> _Moderated:
    """Return moderated variances.

    Other candidates are weighted by similarity and contribute at most `PRIOR_DF` degrees of freedom together. Where
    they contribute less than one, because no other candidate has a similar value, the mean variance of all others fills
    the gap, but only to increase a variance: three exactly equal seeds do not prove a spread of zero, and a zero spread
    of dissimilar candidates is no evidence.

    Args:
        centers: [C] means.
        variances: [C] variances of the runs of each candidate.
        df: [C] degrees of freedom of the variances.
        worst: Worst run, without those of the worst tenth of the candidates.
    """
    spread, n = usual_range(centers), len(centers)
    known = float(df.sum())
    usual = _without_extremes(variances, float(centers.max()) - worst)
    # With one seed each, the distances between candidates are the only information.
    everywhere = float(df @ usual) / known if known else (spread / 4) ** 2
    width = max(_NEAR * spread, _REACH * math.sqrt(everywhere / (1 + known / n)), _NOTHING)
    if n > _COMPARED:
        total, weighted = (_near_others(centers, width, amounts) for amounts in (df, df * usual))
    else:
        apart = np.minimum(np.abs(centers[:, None] - centers[None, :]), _FAR * width) / width
        weights = np.exp(-0.5 * apart**2) * df[None, :]
        np.fill_diagonal(weights, 0.0)
        total, weighted = weights.sum(axis=1), weights @ usual
    counts = np.minimum(PRIOR_DF, total)
    moderated = _blended(weighted / np.maximum(total, _NOTHING), counts, variances, df)
    missing, of_others = np.maximum(0.0, 1.0 - counts), np.full(n, everywhere)
    if known:
        others = np.maximum(0.0, known - df)
        missing = np.where(others > 0, missing, 0.0)
        of_others = np.maximum(0.0, known * everywhere - df * usual) / np.maximum(others, 1.0)
    filled = _blended(of_others, missing, moderated, counts + df)
    if not known:
        return _Moderated(filled, df, filled, df)
    fall_total = total + _COLLAPSE_DF
    with_collapses = (weighted + _COLLAPSE_DF * _collapse_variances(centers, usual, df, worst)) / fall_total
    fall_counts = np.minimum(PRIOR_DF, fall_total)
    fall_variances = _blended(with_collapses, fall_counts, variances, df)
    return _Moderated(np.maximum(moderated, filled), counts + df, fall_variances, fall_counts + df)


def _blended(one: Array, one_df: Array, other: Array, other_df: Array) -> Array:
    """Return [C] variances to which both parts contribute by their degrees of freedom."""
    return np.asarray((one_df * one + other_df * other) / np.maximum(one_df + other_df, _NOTHING))


def _collapse_variances(centers: Array, variances: Array, df: Array, worst: float) -> Array:
    """Return [C] variances of runs that collapse to the worst run about as often as those of all candidates do.

    A run that collapses adds the square of its fall to the sum of squares. So the sums of squares of all candidates,
    over those that they had if every run collapsed, estimate how often that happens.
    """
    falls = np.maximum(0.0, centers - worst)
    assumed = _COLLAPSES * float(falls.max()) ** 2
    usual = centers >= worst
    seen, possible = float(df[usual] @ variances[usual]) + assumed, float(df @ falls**2) + assumed
    share = min(0.5, seen / possible) if possible > 0 else 0.0
    return np.asarray(share * falls**2)


def _without_extremes(variances: Array, fall: float) -> Array:
    """Return variances of which the largest tenth is cut, down to that of runs at both ends of the usual range.

    A single candidate whose runs exploded must not widen the intervals of all others. Collapses count in full.

    Args:
        variances: [C] variances.
        fall: Distance from the highest mean to the worst run, without those of the worst tenth of the candidates.
    """
    if len(variances) < TRIMMED_FROM:
        return variances
    return np.minimum(variances, max(np.quantile(variances, 0.9, method="lower"), fall**2 / 2))


def _near_others(centers: Array, width: float, amounts: Array) -> Array:
    """Return [C] sums of the amounts of all others, weighted by similarity, to about 1e-4, on a smoothed grid."""
    order = np.argsort(centers)
    parts = np.flatnonzero(np.diff(centers[order]) > _FAR * width) + 1  # gaps beyond which no candidate is similar
    sums = np.empty(len(centers))
    for own in np.split(order, parts):
        position = (centers[own] - centers[own[0]]) / width * _CELLS
        below = np.floor(position).astype(int)
        above = position - below
        grid = np.bincount(below, amounts[own] * (1 - above), below.max() + 2)
        grid += np.bincount(below + 1, amounts[own] * above, below.max() + 2)
        smooth = (
            ndimage.gaussian_filter1d(grid, _CELLS, mode="constant", truncate=_FAR) * _CELLS * math.sqrt(2 * math.pi)
        )
        sums[own] = smooth[below] * (1 - above) + smooth[below + 1] * above - amounts[own]
    return np.maximum(sums, 0.0)
