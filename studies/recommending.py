"""Which of several candidates to use, where some of them cannot be told from the best. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.ranking import Direction, Ranked
from studies.rate_curve import Peak, blended, log10_rate, peak, smoothing
from studies.spaces import Json
from studies.statistics import Estimates, estimate


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCurve:
    """The learning rates of candidates that are the same in everything else.

    Attributes:
        members: The complete ones.
        worth: Number of a member -> its value by its own seeds and by the curve together, higher is better.
        peak: Where the curve is highest.
    """

    members: tuple[Ranked, ...]
    worth: Mapping[int, float]
    peak: Peak


def recommended(
    ranked: Sequence[Ranked],
    direction: Direction = "maximize",
    left: Sequence[Left] = (),
    among: Collection[int] | None = None,
) -> Ranked | None:
    """Returns the candidate to use: the best one, or of those that cannot be told from it the most robust.

    Where a learning rate was searched, that is the one which is best by its own seeds and by the curve of its kind
    (everything but the rate) together; of equals, the nearest to the middle of where the curve may be highest. So it is
    not at the edge of a cliff, and less a matter of luck. Without learning rates it is the best one.

    Args:
        ranked: What `rank` returned.
        direction: Whether a high or a low value is good. Defaults to `maximize`.
        left: What was tried but did not come to its end: part of the curves too.
        among: Numbers of those that may be recommended; None for all.

    Returns:
        None if nothing has a value.
    """
    allowed = [each for each in ranked if (among is None or each.number in among) and not math.isnan(each.value)]
    tied = [each for each in allowed if each.tied]
    name = rate_name([*ranked, *left])
    if len(tied) < 2 or name is None or math.isnan(tied[0].low):
        return allowed[0] if allowed else None
    curves: list[RateCurve] = []
    for each in tied:
        if not any(each in curve.members for curve in curves):
            curves.append(rate_curve(ranked, left, each, name, direction))

    def badness(each: Ranked) -> tuple[float, float, float, int]:
        curve = next(curve for curve in curves if each in curve.members)
        spread = math.inf if math.isnan(each.spread) else each.spread
        off = abs(_position(each, name) - curve.peak.middle)
        return -round(curve.worth[each.number], 9), round(off, 9), spread, each.number

    return min(tied, key=badness)


def rate_curve(
    ranked: Sequence[Ranked], left: Sequence[Left], member: Ranked, name: str, direction: Direction
) -> RateCurve:
    """Returns the curve that a candidate belongs to.

    Args:
        ranked: All candidates: their spreads together say how uncertain each value is.
        left: What was tried but did not come to its end.
        member: One of `ranked`.
        name: The parameter that is the learning rate.
        direction: Whether a high or a low value is good.
    """
    sign = 1.0 if direction == "maximize" else -1.0
    known = [each for each in ranked if not math.isnan(each.value)]
    estimates = estimate([[sign * value for value in each.seed_values] for each in known])
    own = [i for i, each in enumerate(known) if _alike(each, member, name)]
    members = tuple(known[i] for i in own)
    gone = [each for each in left if _alike(each, member, name)]
    points: list[Point] = [*ranked, *left]
    values = [sign * each.value for each in points if not math.isnan(each.value)]
    fixed = [(_position(each, name), min(values) if math.isnan(each.value) else sign * each.value) for each in gone]
    positions = [_position(each, name) for each in members]
    of_kind = Estimates(
        centers=estimates.centers[own], errors=estimates.errors[own], df=estimates.df[own], counts=estimates.counts[own]
    )
    all_positions = [*positions, *(position for position, _ in fixed)]
    smooth = smoothing(all_positions) @ np.array([*of_kind.centers, *(value for _, value in fixed)])
    expected = blended(of_kind.centers, smooth[: len(members)], of_kind.counts)
    worth = {each.number: float(value) for each, value in zip(members, expected, strict=True)}
    return RateCurve(members=members, worth=worth, peak=peak(of_kind, positions, fixed))


def rate_name(points: Sequence[Point]) -> str | None:
    """Returns the one parameter that is a learning rate, None if there is none or there are several.

    Some candidates may lack it: those of an optimizer that has a schedule.
    """
    names = {name for each in points for name in each.params if name.endswith("learning_rate")}
    if len(names) != 1:
        return None
    [name] = names
    rates = [each.params[name] for each in points if name in each.params]
    return name if all(math.isfinite(log10_rate(rate)) for rate in rates) else None


def kind_of(point: Point, name: str) -> dict[str, Json]:
    """Returns all parameters but the rate."""
    return {key: value for key, value in point.params.items() if key != name}


def _alike(one: Point, other: Point, name: str) -> bool:
    """Whether two differ in nothing but the rate, which both have or neither."""
    return kind_of(one, name) == kind_of(other, name) and (name in one.params) == (name in other.params)


def _position(point: Point, name: str) -> float:
    """Decimal logarithm of the rate; those without one are all at the same place."""
    return log10_rate(point.params[name]) if name in point.params else 0.0
