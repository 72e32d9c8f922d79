"""Who is best, from the values of each seed. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from studies.errors import StudyError
from studies.spec.spaces import Json
from studies.spec.spec import Direction
from studies.statistics.bounds import Bounds
from studies.statistics.intervals import estimate
from studies.statistics.values import usual_range

UNLIKELY = 0.01
"""Share of the highest probability of being the best, below which nobody is called level with the best."""

ENDS = 3
"""Runs that must have had exactly the lowest or the highest value, for it to be the least or the most there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to be ranked.

    Attributes:
        label: What it is called.
        params: Its parameters.
        seed_values: Its value on each seed.
        number: Its trial's number; decides the last tie. Defaults to `0`.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its place's reasons.

    Attributes:
        label: What it is called.
        params: Its parameters.
        seed_values: Its value on each seed.
        number: Its trial's number.
        value: Interquartile mean over seeds; of fewer than four seeds their mean. NaN if there is no seed or one is not
            finite.
        spread: Sample standard deviation over seeds (divided by n - 1); NaN with fewer than two seeds, because one
            seed says nothing about spread.
        low: Lower end of the interval in which the expected value lies with 95% probability, that is the interquartile
            mean over ever more seeds; NaN if the value is unknown or nothing is known of the spread of any candidate.
            It does not reach beyond a value that the seeds of several runs had exactly: the least or the most there is.
        high: Its upper end.
        probability_best: How probable it is that no other candidate has a better expected value.
        tied: Whether it cannot be told from the best, with 95% confidence over all candidates, and is not most unlikely
            to be the best (`UNLIKELY`).
        n_seeds: How many seeds.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int
    value: float
    spread: float
    low: float
    high: float
    probability_best: float
    tied: bool
    n_seeds: int


def rank(candidates: Sequence[Candidate | Ranked], direction: Direction = "maximize") -> list[Ranked]:
    """Orders candidates by their interquartile mean over seeds, best first, and says how sure the order is.

    Equal values are ordered by the lower spread (an unknown spread comes last), then by the lower trial number.
    Candidates whose value is unknown come after all others. Intervals and ties are those of
    `studies.statistics.intervals`.

    Args:
        candidates: What to rank, or what was ranked among others.
        direction: Whether a high or a low value is good. Defaults to `maximize`.
    """
    if direction not in ("maximize", "minimize"):
        raise StudyError(f"direction is {direction!r}: give 'maximize' or 'minimize'.")
    sign = 1.0 if direction == "maximize" else -1.0
    known: list[Candidate | Ranked] = []
    unknown: list[Candidate | Ranked] = []
    for each in candidates:
        (known if each.seed_values and np.isfinite(each.seed_values).all() else unknown).append(each)
    ranked = _judged(known, sign) if known else []
    ranked.sort(key=lambda entry: (-sign * entry.value, _or_infinite(entry.spread), entry.number))
    return ranked + [_unknown(each) for each in sorted(unknown, key=lambda each: each.number)]


def within(ranked: Sequence[Ranked], bounds: Bounds) -> list[Ranked]:
    """Returns the same with intervals that do not reach beyond what is possible.

    The expected value lies within the bounds for certain, so that cutting off what is beyond them costs no confidence.
    """
    return [
        each
        if math.isnan(each.low)
        else replace(
            each,
            low=min(max(each.low, bounds.least), max(each.value, bounds.least)),
            high=max(min(each.high, bounds.most), min(each.value, bounds.most)),
        )
        for each in ranked
    ]


def _judged(known: Sequence[Candidate | Ranked], sign: float) -> list[Ranked]:
    n = len(known)
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    if max(len(each.seed_values) for each in known) > 1:
        low, high = np.sort(sign * np.stack(estimates.interval()), axis=0)
        least, most = _bounds([value for each in known for value in each.seed_values])
        low, high = np.maximum(low, least), np.minimum(high, most)
        probable = estimates.probability_best()
        tied = estimates.may_be_best() & (probable >= UNLIKELY * probable.max())
        tied[np.argmax(estimates.centers)] = True
    else:  # only how far apart they are is known
        low, high, tied, probable = np.full(n, np.nan), np.full(n, np.nan), np.ones(n, bool), np.full(n, 1 / n)
    return [
        Ranked(
            label=each.label,
            params=each.params,
            seed_values=each.seed_values,
            number=each.number,
            value=float(sign * estimates.centers[i]),
            spread=float(np.std(each.seed_values, ddof=1)) if len(each.seed_values) > 1 else math.nan,
            low=float(low[i]),
            high=float(high[i]),
            probability_best=float(probable[i]),
            tied=bool(tied[i]),
            n_seeds=len(each.seed_values),
        )
        for i, each in enumerate(known)
    ]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """The least and the most that a value can be, where `ENDS` runs have come to exactly that; infinite elsewhere."""
    least, most = min(values), max(values)
    if least == most:
        return -math.inf, math.inf
    return (
        least if values.count(least) >= ENDS else -math.inf,
        most if values.count(most) >= ENDS else math.inf,
    )


def _unknown(each: Candidate | Ranked) -> Ranked:
    return Ranked(
        label=each.label, params=each.params, seed_values=each.seed_values, number=each.number, value=math.nan,
        spread=math.nan, low=math.nan, high=math.nan, probability_best=0.0, tied=False, n_seeds=len(each.seed_values),
    )  # fmt: skip


def may_exceed(one: Ranked, other: Ranked) -> float:
    """Returns by how much the expected value of one candidate may exceed that of another, given their 95% intervals.

    Intervals that end at a bound are not symmetric, so each side of them is taken by itself (Zou and Donner 2008,
    "Construction of confidence limits about effect measures: a general approach"): a candidate whose interval ends at
    its value cannot be better than that.
    """
    return one.value - other.value + math.hypot(one.high - one.value, other.value - other.low)


def seeds_to_settle(ranked: Sequence[Ranked], direction: Direction = "maximize") -> int | None:
    """Returns how many seeds each would tell the best one from those that are level with it now.

    Args:
        ranked: What `rank` returned.
        direction: Whether a high or a low value is good. Defaults to `maximize`.

    Returns:
        Seeds each in total, if values and spreads stay as they are; None where none would do, because two are exactly
        equal, or nothing is known of the spread.
    """
    known = [each for each in ranked if not math.isnan(each.value)]
    if not known or math.isnan(known[0].low):
        return None
    sign = 1.0 if direction == "maximize" else -1.0
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    return estimates.seeds_to_settle()


def worst_choice(ranked: Sequence[Ranked], name: str) -> tuple[list[Json], float]:
    """Returns the values of a parameter that cannot be told from the best one's, and what choosing wrongly may cost.

    Each value of the parameter is judged by the best candidate that has it.

    Args:
        ranked: What `rank` returned.
        name: The parameter, such as `optimizer`.

    Returns:
        The values, best first, and the greatest difference between two of them that is within the 95% intervals, as a
        share of the range of all candidates; NaN where nothing is known of the spread.
    """
    best: dict[str, Ranked] = {}
    for each in ranked:
        if name in each.params and not math.isnan(each.value):
            best.setdefault(str(each.params[name]), each)
    level = [each for each in best.values() if each.tied]
    known = [each.value for each in ranked if not math.isnan(each.value)]
    downwards = len(known) > 1 and known[0] > known[-1]  # best first
    span = usual_range(known if downwards else [-value for value in known]) if known else 0.0
    costs = [may_exceed(one, other) / (span or 1.0) for one in level for other in level if one is not other]
    return [each.params[name] for each in level], max(costs, default=0.0)


def _or_infinite(spread: float) -> float:
    return math.inf if math.isnan(spread) else spread
