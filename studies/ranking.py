"""Who is best, from the values of each seed. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from studies.errors import StudyError
from studies.spaces import Json
from studies.statistics import estimate

Direction = Literal["maximize", "minimize"]


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
        high: Its upper end.
        probability_best: How probable it is that no other candidate has a better expected value.
        tied: Whether it cannot be told from the best, with 95% confidence over all candidates.
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


def rank(candidates: Sequence[Candidate], direction: Direction = "maximize") -> list[Ranked]:
    """Orders candidates by their interquartile mean over seeds, best first, and says how sure the order is.

    Equal values are ordered by the lower spread (an unknown spread comes last), then by the lower trial number.
    Candidates whose value is unknown come after all others. Intervals and ties are those of `studies.statistics`.

    Args:
        candidates: What to rank.
        direction: Whether a high or a low value is good. Defaults to `maximize`.
    """
    if direction not in ("maximize", "minimize"):
        raise StudyError(f"direction is {direction!r}: give 'maximize' or 'minimize'.")
    sign = 1.0 if direction == "maximize" else -1.0
    known = [each for each in candidates if each.seed_values and np.isfinite(each.seed_values).all()]
    ranked = _judged(known, sign) if known else []
    ranked.sort(key=lambda entry: (-sign * entry.value, _or_infinite(entry.spread), entry.number))
    unknown = [each for each in candidates if each not in known]
    return ranked + [_unknown(each) for each in sorted(unknown, key=lambda each: each.number)]


def _judged(known: Sequence[Candidate], sign: float) -> list[Ranked]:
    n = len(known)
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    if max(len(each.seed_values) for each in known) > 1:
        low, high = np.sort(sign * np.stack(estimates.interval()), axis=0)
        tied, probable = estimates.may_be_best(), estimates.probability_best()
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


def _unknown(each: Candidate) -> Ranked:
    return Ranked(
        label=each.label, params=each.params, seed_values=each.seed_values, number=each.number, value=math.nan,
        spread=math.nan, low=math.nan, high=math.nan, probability_best=0.0, tied=False, n_seeds=len(each.seed_values),
    )  # fmt: skip


def recommended(
    ranked: Sequence[Ranked],
    direction: Direction = "maximize",
    left: Sequence[Left] = (),
    among: Collection[int] | None = None,
) -> Ranked | None:
    """Returns the candidate to use: the best one, or of those that cannot be told from it the most robust.

    That is the one which does well with its neighbours: the mean of its value, twice, and those of the next lower and
    the next higher learning rate with everything else the same. So it is not at the edge of a cliff, and less a matter
    of luck. Of several that are equal it is the one in the middle of its kind. Without learning rates it is the best
    one.

    Args:
        ranked: What `rank` returned.
        direction: Whether a high or a low value is good. Defaults to `maximize`.
        left: What was tried but did not come to its end: neighbours too.
        among: Numbers of those that may be recommended; None for all.

    Returns:
        None if nothing has a value.
    """
    allowed = [each for each in ranked if (among is None or each.number in among) and not math.isnan(each.value)]
    tied = [each for each in allowed if each.tied]
    points: list[Point] = [*ranked, *left]
    name = rate_name(points)
    if len(tied) < 2 or name is None or math.isnan(tied[0].low):
        return allowed[0] if allowed else None
    sign = 1.0 if direction == "maximize" else -1.0
    worst = min(sign * each.value for each in points if not math.isnan(each.value))

    def worth(point: Point) -> float:
        return worst if math.isnan(point.value) else sign * point.value

    def robustness(entry: Ranked) -> tuple[float, float, float, int]:
        near = [worth(each) for each in _neighbours(entry, points, name)]
        around = (2 * worth(entry) + sum(near) + (2 - len(near)) * worth(entry)) / 4
        alike = sorted(_log_rate(each, name) for each in tied if kind_of(each, name) == kind_of(entry, name))
        off_middle = abs(_log_rate(entry, name) - (alike[0] + alike[-1]) / 2)
        return round(around, 9), -round(off_middle, 9), -_or_infinite(entry.spread), -entry.number

    return max(tied, key=robustness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that was tried and did not come to its end.

    Attributes:
        params: Its parameters.
        value: Its last value, where it was pruned; NaN where it failed, which counts as the worst value of all.
    """

    params: Mapping[str, Json]
    value: float


Point = Ranked | Left


def rate_name(points: Sequence[Point]) -> str | None:
    """Returns the one parameter that is a learning rate, None if there is none or there are several."""
    names = {name for each in points for name in each.params if name.endswith("learning_rate")}
    if len(names) != 1:
        return None
    [name] = names
    rates = [each.params.get(name) for each in points]
    return name if all(isinstance(rate, int | float) and rate > 0 for rate in rates) else None


def _log_rate(point: Point, name: str) -> float:
    rate = point.params[name]
    return math.log10(rate) if isinstance(rate, int | float) else 0.0


def kind_of(point: Point, name: str) -> dict[str, Json]:
    """Returns all parameters but the rate."""
    return {key: value for key, value in point.params.items() if key != name}


def _neighbours(entry: Ranked, points: Sequence[Point], name: str) -> list[Point]:
    """The next lower and the next higher rate with everything else the same."""
    group = [each for each in points if kind_of(each, name) == kind_of(entry, name)]
    own = _log_rate(entry, name)
    below = [each for each in group if _log_rate(each, name) < own]
    above = [each for each in group if _log_rate(each, name) > own]
    near = [max(below, key=lambda each: _log_rate(each, name))] if below else []
    return near + ([min(above, key=lambda each: _log_rate(each, name))] if above else [])


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
    values = [each.value for each in ranked if not math.isnan(each.value)]
    span = max(values, default=0.0) - min(values, default=0.0)
    costs = [
        (abs(one.value - other.value) + math.hypot(one.high - one.low, other.high - other.low) / 2) / (span or 1.0)
        for one in level
        for other in level
        if one is not other
    ]
    return [each.params[name] for each in level], max(costs, default=0.0)


def _or_infinite(spread: float) -> float:
    return math.inf if math.isnan(spread) else spread
