"""What a few seeds say: interquartile means, intervals that hold at three to ten seeds, and who may be the best.

Three seeds of one candidate say next to nothing about its spread: three runs that all reached the greatest return have
a spread of 0, and an interval of no width. The candidates of one study say more together. So the variance of each is
moderated, as Smyth (2004, "Linear models and empirical Bayes methods") does it for a few arrays of many genes: it is
drawn towards that of the others which do about as well, which counts for up to `PRIOR_DF` further degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import ndimage, stats

from studies.statistics.values import iqm, usual_range

Array = np.ndarray[Any, Any]

PRIOR_DF = 4.0
"""Degrees of freedom that the variance of comparable candidates counts for."""

_INEFFICIENCY = 1.09
"""Standard error of the interquartile mean over that of the mean, where both are of normal values."""

_DRAWS = 4_000

_NEAR = 0.1
"""Share of the range of all candidates within which two do about as well."""

_MANY = 5
"""Candidates from which on the tenth with the largest variances does not count for the others."""

_FAR = 12.0
"""Standard errors beyond which a candidate is not compared any more."""

_SIMULATED = 200
"""Candidates near the best up to which critical values are simulated; for more, a bound that tells fewer apart."""

_COMPARED = 1_000
"""Candidates up to which each is compared with each; for more, on a grid."""

_CELLS = 64
"""Cells of that grid within which two do about as well."""


def probability_of_improvement(values: Sequence[float], others: Sequence[float]) -> float:
    """How often a run of the one is better than a run of the other: pairs won, ties half; see Agarwal et al. 2021.

    Args:
        values: Values of the one's seeds, higher is better.
        others: Values of the other's.
    """
    difference = np.subtract.outer(np.asarray(values, np.float64), np.asarray(others, np.float64))
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What is known of several candidates, each by position. Higher is better.

    Attributes:
        centers: [C] interquartile means over seeds.
        errors: [C] their standard errors.
        df: [C] degrees of freedom of the errors.
        counts: [C] seeds.
    """

    centers: Array
    errors: Array
    df: Array
    counts: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """[C] lower and upper ends between which the expected interquartile mean lies with this probability."""
        reach = stats.t.ppf(0.5 + level / 2, self.df) * self.errors
        return self.centers - reach, self.centers + reach

    @cached_property
    def _noise(self) -> Array:
        """[D, C] by how much the centers may be wrong; the same every time. Fewer of many candidates, to stay fast."""
        size = (max(_DRAWS // 4, min(_DRAWS, _DRAWS * 15 // len(self.centers))), len(self.centers))
        return np.asarray(self.errors * stats.t.rvs(self.df, size=size, random_state=np.random.default_rng(0)))

    def probability_best(self) -> Array:
        """[C] how probable it is that a candidate's expected value is the highest; those that are equal share it."""
        drawn = self.centers + self._noise
        highest = drawn == drawn.max(axis=1, keepdims=True)
        return np.asarray((highest / highest.sum(axis=1, keepdims=True)).mean(axis=0))

    def may_be_best(self, level: float = 0.95) -> Array:
        """[C] bool: the candidates that cannot be told from the best.

        These are the multiple comparisons with the best of Hsu (1981), with critical values from simulation: however
        many candidates there are, one of several equals is alone among them with at most probability 1 - `level`.
        """
        reach = _FAR * self.errors
        near = np.flatnonzero(self.centers + reach >= np.max(self.centers - reach))  # the others need no simulation
        if len(near) > _SIMULATED:
            return self._may_be_best_of_many(near, level)
        noise = self._noise[:, near]  # [D, N]
        centers, errors = self.centers[near], self.errors[near]
        kept = np.zeros(len(self.centers), bool)
        for j, position in enumerate(near):
            others = np.arange(len(near)) != j
            if not others.any():
                break
            width = np.maximum(np.hypot(errors[j], errors[others]), np.finfo(np.float64).tiny)
            excess = (noise[:, others] - noise[:, [j]]) / width
            critical = np.quantile(excess.max(axis=1), (1 + level) / 2)
            kept[position] = bool(np.all(centers[others] - centers[j] <= critical * width))
        kept[np.argmax(self.centers)] = True
        return kept

    def _may_be_best_of_many(self, near: Array, level: float) -> Array:
        """The same with Bonferroni's bound in the place of a simulation, whose cost grows with the square of them."""
        kept = np.zeros(len(self.centers), bool)
        centers, errors = self.centers[near], self.errors[near]
        critical = stats.t.ppf(1 - (1 - level) / 2 / (len(near) - 1), self.df[near].min())
        for j, position in enumerate(near):
            width = np.hypot(errors[j], errors)
            kept[position] = bool(np.all(centers - centers[j] <= critical * width))
        kept[np.argmax(self.centers)] = True
        return kept

    def seeds_to_settle(self, level: float = 0.95) -> int | None:
        """Seeds of each candidate that would tell the best one from all others which are now level with it.

        Args:
            level: See `may_be_best`.

        Returns:
            The whole number of seeds, counting those that are there, if means and spreads stay as they are; None where
            two are exactly equal.
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
            critical = stats.t.ppf(1 - (1 - level) / 2 / max(1, len(rivals) - 1), self.df[pair].min())
            fewest = int(self.counts[pair].min()) + 1  # those that are there do not settle it
            needed = max(needed, fewest, math.ceil((critical * of_one_seed / gap) ** 2))
        return needed


def estimate(seed_values: Sequence[Sequence[float]]) -> Estimates:
    """What the values of each candidate's seeds say, with moderated variances.

    Args:
        seed_values: Values of each candidate's seeds, at least one each, finite, higher is better.
    """
    arrays = [np.asarray(values, np.float64) for values in seed_values]
    counts = np.array([len(values) for values in arrays], np.float64)
    centers = np.array([iqm(values) for values in arrays])
    own_df = counts - 1
    variances = np.array([values.var(ddof=1) if len(values) > 1 else 0.0 for values in arrays])
    moderated, df = _moderated(centers, variances, own_df)
    inefficiency = np.where(counts >= 4, _INEFFICIENCY, 1.0)
    return Estimates(centers=centers, errors=inefficiency * np.sqrt(moderated / counts), df=df, counts=counts)


def _moderated(centers: Array, variances: Array, df: Array) -> tuple[Array, Array]:
    """[C] the variance of each candidate, moderated by the others, and its degrees of freedom.

    Others count the more the nearer they are, together for at most `PRIOR_DF` degrees of freedom. Where they count for
    less than one, because nobody does about as well, the mean variance of all others makes up for it, but only to make
    a variance larger: three seeds that are exactly equal are no proof that there is no spread, and that others far away
    have none says nothing.
    """
    spread, nothing = usual_range(centers), float(np.finfo(np.float64).tiny)
    usual = variances <= (np.quantile(variances, 0.9, method="lower") if len(variances) >= _MANY else np.inf)
    known = float(df[usual].sum())
    # One seed each: nothing is known but how far apart they are.
    everywhere = float(df[usual] @ variances[usual]) / known if known else (spread / 4) ** 2
    width = max(_NEAR * spread, math.sqrt(everywhere / (1 + known / len(df))), nothing)
    if len(centers) > _COMPARED:
        total, weighted = (_near_others(centers, width, amounts) for amounts in (df, df * variances))
    else:
        apart = np.minimum(np.abs(centers[:, None] - centers[None, :]), _FAR * width) / width
        weights = np.exp(-0.5 * apart**2) * df[None, :]
        np.fill_diagonal(weights, 0.0)
        total, weighted = weights.sum(axis=1), weights @ variances
    counts = np.minimum(PRIOR_DF, total)
    nearby = weighted / np.maximum(total, nothing)
    own = np.maximum(counts + df, nothing)
    moderated = (counts * nearby + df * variances) / own
    missing = np.maximum(0.0, 1.0 - counts)
    filled = (own * moderated + missing * everywhere) / (own + missing)
    return np.maximum(moderated, filled), np.maximum(counts + df, 1.0)


def _near_others(centers: Array, width: float, amounts: Array) -> Array:
    """[C] the sum of the amounts of all others, each by how near it is, to about 1e-4: on a grid that is smoothed."""
    order = np.argsort(centers)
    parts = np.flatnonzero(np.diff(centers[order]) > _FAR * width) + 1  # beyond which nobody is near
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
