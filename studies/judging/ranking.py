"""Ranking of candidates by the values of their seeds. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from studies.errors import StudyError
from studies.spaces.spaces import Json
from studies.spec.fields import Direction
from studies.statistics.bounds import NO_BOUNDS, Bounds, reached_bounds
from studies.statistics.intervals import estimate
from studies.statistics.values import sign_of, spread_of_seeds, usual_range

UNLIKELY = 0.01
"""Probability that one of the candidates that are left out of a tie, all of them together, is the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Candidate to rank.

    Attributes:
        label: Name of the candidate.
        params: Its parameters.
        seed_values: Value of each seed.
        number: Number of its trial, the last tie-breaker. Defaults to `0`.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Ranked candidate, with the statistics behind its rank.

    Attributes:
        label: Name of the candidate.
        params: Its parameters.
        seed_values: Value of each seed.
        number: Number of its trial.
        value: Mean over seeds. NaN if there is no seed or one is not finite.
        spread: Sample standard deviation over seeds (divided by n - 1); NaN with fewer than two seeds.
        low: Lower end of the 95% interval of the expected value, that is the mean over infinitely many seeds;
            NaN if the value, or the spread of all candidates, is unknown. It does not exceed a value that the
            seeds of several runs reached exactly, which counts as a bound.
        high: Upper end of that interval.
        compared_low: Lower end without an allowance for collapses that no seed has shown, for comparisons.
        compared_high: Upper end without it.
        probability_best: Probability that no other candidate has a better expected value.
        tied: Whether it cannot be distinguished from the best, with 95% confidence over all candidates, and belongs to
            the most probable ones, which are the best with a probability of 99% together (`UNLIKELY`).
        n_seeds: Number of seeds.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int
    value: float
    spread: float
    low: float
    high: float
    compared_low: float = math.nan
    compared_high: float = math.nan
    probability_best: float
    tied: bool
    n_seeds: int

    @property
    def has_value(self) -> bool:
        """Return whether its value is known."""
        return not math.isnan(self.value)


def rank(
    candidates: Sequence[Candidate | Ranked], direction: Direction = "maximize", reward_threshold: float | None = None
) -> list[Ranked]:
    """Return candidates ordered by their mean over seeds, best first, with intervals and ties.

    Equal values are ordered by the lower spread (an unknown spread comes last), then by the lower trial number.
    Candidates whose value is unknown come last. Intervals and ties are those of `studies.statistics.intervals`.

    Args:
        candidates: Candidates, or candidates that were ranked among others.
        direction: Direction in which values are better. Defaults to `maximize`.
        reward_threshold: Return from which the environment counts as solved: a lower one is no upper bound, although
            several runs reached exactly it. Defaults to None: unknown.
    """
    if direction not in ("maximize", "minimize"):
        raise StudyError(f"direction is {direction!r}: give 'maximize' or 'minimize'.")
    sign = sign_of(direction)
    known: list[Candidate | Ranked] = []
    unknown: list[Candidate | Ranked] = []
    for each in candidates:
        (known if each.seed_values and np.isfinite(each.seed_values).all() else unknown).append(each)
    ranked = _judged(known, sign, reward_threshold) if known else []
    ranked.sort(key=lambda entry: (-sign * entry.value, _or_infinite(entry.spread), entry.number))
    return ranked + [_unknown(each) for each in sorted(unknown, key=lambda each: each.number)]


def within(ranked: Sequence[Ranked], bounds: Bounds) -> list[Ranked]:
    """Return candidates whose intervals are clipped to bounds.

    The expected value certainly lies within the bounds, so clipping does not reduce the confidence.
    """

    def clipped(value: float, low: float, high: float) -> tuple[float, float]:
        least, most = max(value, bounds.least), min(value, bounds.most)
        return min(max(low, bounds.least), least), max(min(high, bounds.most), most)

    found = []
    for each in ranked:
        low, high = clipped(each.value, each.low, each.high)
        compared_low, compared_high = clipped(each.value, each.compared_low, each.compared_high)
        clipped_one = replace(each, low=low, high=high, compared_low=compared_low, compared_high=compared_high)
        found.append(each if math.isnan(each.low) else clipped_one)
    return found


def _judged(known: Sequence[Candidate | Ranked], sign: float, reward_threshold: float | None) -> list[Ranked]:
    n = len(known)
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    if max(len(each.seed_values) for each in known) > 1:
        least, most = _bounds([each.seed_values for each in known], reward_threshold)
        ends = [estimates.interval(), estimates.interval(collapses=False)]
        low, compared_low, high, compared_high = np.clip(
            np.sort(sign * np.array(ends), axis=1).swapaxes(0, 1).reshape(4, n), least, most
        )
        probable = estimates.probability_best()
        tied = estimates.may_be_best() & _likely(probable)
        tied[np.argmax(estimates.centers)] = True
    else:  # only distances between candidates are known
        low = high = compared_low = compared_high = np.full(n, np.nan)
        tied, probable = np.ones(n, bool), np.full(n, 1 / n)
    return [
        Ranked(
            label=each.label,
            params=each.params,
            seed_values=each.seed_values,
            number=each.number,
            value=float(sign * estimates.centers[i]),
            spread=spread_of_seeds(each.seed_values),
            low=float(low[i]),
            high=float(high[i]),
            compared_low=float(compared_low[i]),
            compared_high=float(compared_high[i]),
            probability_best=float(probable[i]),
            tied=bool(tied[i]),
            n_seeds=len(each.seed_values),
        )
        for i, each in enumerate(known)
    ]


def _likely(probable: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return [C] bool: the most probable candidates, of which one is the best with a probability of 1 - `UNLIKELY`."""
    descending = np.sort(probable)[::-1]
    last = int(np.searchsorted(np.cumsum(descending), 1 - UNLIKELY))
    least = descending[min(last, len(descending) - 1)]
    return np.asarray(probable >= least - 1e-12)  # equal ones are in or out together


def _bounds(seed_values: Sequence[Sequence[float]], reward_threshold: float | None) -> Bounds:
    """Return the bounds that several runs of at least two candidates reached exactly (`reached_bounds`).

    All runs of one candidate may end in the same local optimum. Candidates with the same different values have the
    same runs, by a parameter without effect: they count once.
    """
    alike = {tuple(own): own for own in seed_values if len(set(own)) > 1}
    different = [*alike.values(), *(own for own in seed_values if len(set(own)) <= 1)]
    values = [value for own in different for value in own]
    least, most = min(values), max(values)
    if least == most:
        return NO_BOUNDS
    n_least, n_most = (values.count(end) if sum(end in own for own in different) > 1 else 0 for end in (least, most))
    return reached_bounds(least, most, n_least, n_most, reward_threshold)


def _unknown(each: Candidate | Ranked) -> Ranked:
    return Ranked(
        label=each.label, params=each.params, seed_values=each.seed_values, number=each.number, value=math.nan,
        spread=math.nan, low=math.nan, high=math.nan, probability_best=0.0, tied=False, n_seeds=len(each.seed_values),
    )  # fmt: skip


def may_exceed(one: Ranked, other: Ranked) -> float:
    """Return how much the expected value of one candidate may exceed that of another, given their 95% intervals.

    Intervals that end at a bound are not symmetric, so each side is used by itself (Zou and Donner 2008, "Construction
    of confidence limits about effect measures: a general approach"): a candidate whose interval ends at its value
    cannot be better than that.
    """
    return one.value - other.value + reach_above(one, other)


def reach_above(one: Ranked, other: Ranked, *, collapses: bool = False) -> float:
    """Return how far the difference of two expected values may exceed that of the two values, with 95% confidence.

    Only the upper side of the one and the lower side of the other matter. NaN if an interval is unknown.

    Args:
        one: The candidate whose expected value may be higher.
        other: The one whose expected value may be lower.
        collapses: Whether to allow for collapses that no seed has shown, by which a good candidate can lose more than a
            bad one. Defaults to False: candidates of a search collapse about equally often.
    """
    if collapses:
        return math.hypot(one.high - one.value, other.value - other.low)
    return math.hypot(one.compared_high - one.value, other.value - other.compared_low)


def seeds_to_settle(ranked: Sequence[Ranked], direction: Direction = "maximize") -> int | None:
    """Return the number of seeds per candidate that would distinguish the best one from all tied ones.

    Args:
        ranked: Result of `rank`.
        direction: Direction in which values are better. Defaults to `maximize`.

    Returns:
        Total seeds each, assuming that values and spreads stay as they are; None if two are exactly equal, or the
        spread is unknown.
    """
    known = [each for each in ranked if each.has_value]
    if not known or math.isnan(known[0].low):
        return None
    sign = sign_of(direction)
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    return estimates.seeds_to_settle()


def worst_choice(
    ranked: Sequence[Ranked], name: str, others: Sequence[float] = (), direction: Direction = "maximize"
) -> tuple[list[Json], float]:
    """Return the values of a parameter that cannot be distinguished from the best one, and the cost of a wrong choice.

    Each value of the parameter is judged by its best candidate.

    Args:
        ranked: Result of `rank`.
        name: Parameter, such as `optimizer`.
        others: Values of further candidates, which count to the range only. Defaults to none.
        direction: Direction in which values are better. Defaults to `maximize`.

    Returns:
        The values, best first, and the largest difference between two of them within the 95% intervals, as a share of
        the range of all candidates; NaN if the spread is unknown.
    """
    best: dict[str, Ranked] = {}
    for each in ranked:
        if name in each.params and each.has_value:
            best.setdefault(str(each.params[name]), each)
    level = [each for each in best.values() if each.tied]
    known = [value for value in (*(each.value for each in ranked), *others) if not math.isnan(value)]
    span = usual_range([sign_of(direction) * value for value in known]) if known else 0.0
    costs = [may_exceed(one, other) / (span or 1.0) for one in level for other in level if one is not other]
    return [each.params[name] for each in level], max(costs, default=0.0)


def _or_infinite(spread: float) -> float:
    return math.inf if math.isnan(spread) else spread
