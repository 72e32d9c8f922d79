"""Choice of the most robust candidate among those that cannot be distinguished from the best. Pure functions."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.judging.ranking import Ranked
from studies.spaces.rates import is_learning_rate
from studies.spaces.spaces import Json
from studies.spec.fields import Direction
from studies.statistics.intervals import estimate
from studies.statistics.rate_curve import ALIKE, Peak, blended, log10_rate, peak, smoothing
from studies.statistics.values import sign_of, usual_range


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedEstimate:
    """Estimate of a candidate that was pruned or failed.

    Attributes:
        params: Its parameters.
        value: Its expected final value if it was pruned (`studies.statistics.pruned_estimate`); NaN if it failed, which
            counts as the worst value of all.
        error: Standard error of the value.
        df: Degrees of freedom of the error, above 0.
        clearly_worse: Whether it was distinguishable, when it was pruned, from candidates with another learning rate.
    """

    params: Mapping[str, Json]
    value: float
    error: float = 0.0
    df: float = 1.0
    clearly_worse: bool = False

    @property
    def has_value(self) -> bool:
        """Return whether its value is known."""
        return not math.isnan(self.value)


Point = Ranked | PrunedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCurve:
    """Curve over the learning rates of candidates that are equal in all other parameters.

    Attributes:
        members: Complete candidates.
        worth: Number of a member -> its value from its own seeds and the curve, higher is better.
        peak: Position of the peak of the curve.
    """

    members: tuple[Ranked, ...]
    worth: Mapping[int, float]
    peak: Peak


def recommended(
    ranked: Sequence[Ranked],
    direction: Direction = "maximize",
    estimated: Sequence[PrunedEstimate] = (),
    among: Collection[int] | None = None,
) -> Ranked | None:
    """Return the candidate to use: the best one, or the most robust of those that cannot be distinguished from it.

    If a learning rate was searched, candidates are compared by their own seeds and the curve of their kind (all other
    parameters) together. Of those within `ALIKE` of the best, the one with the smallest spread is chosen, then the one
    nearest to the middle of the peak. It is therefore not at the edge of a cliff, and less dependent on luck. Without
    learning rates it is the best one.

    Args:
        ranked: Result of `rank`.
        direction: Direction in which values are better. Defaults to `maximize`.
        estimated: Estimates of pruned and failed candidates, which are part of the curves.
        among: Numbers of the candidates that may be recommended; None for all.

    Returns:
        None if no candidate has a value.
    """
    allowed = [each for each in ranked if (among is None or each.number in among) and each.has_value]
    tied = [each for each in allowed if each.tied]
    name = rate_name([*ranked, *estimated])
    if len(tied) < 2 or name is None:
        return allowed[0] if allowed else None
    sign = sign_of(direction)
    points: list[Point] = [*ranked, *estimated]
    values = [sign * each.value for each in points if each.has_value]
    alike = max(ALIKE * usual_range(values), float(np.finfo(np.float64).tiny))
    curves = RateCurves(ranked, estimated, name, direction)
    worth = {each.number: curves.of(each).worth[each.number] for each in tied}
    highest = max(worth.values())

    def badness(each: Ranked) -> tuple[float, float, float, int]:
        spread = math.inf if math.isnan(each.spread) else each.spread
        steps = spread / (2 * alike)
        steps = float(round(steps)) if math.isfinite(steps) else math.inf
        off = abs(_position(each, name) - curves.of(each).peak.middle)
        return steps, round(off, 9), spread, each.number

    return min((each for each in tied if worth[each.number] >= highest - alike), key=badness)


class RateCurves:
    """Curves over learning rates, one for each kind of candidates.

    Args:
        ranked: All candidates, whose spreads together determine the uncertainty of each value.
        estimated: Estimates of pruned and failed candidates.
        name: Parameter that is the learning rate.
        direction: Direction in which values are better.
    """

    def __init__(
        self, ranked: Sequence[Ranked], estimated: Sequence[PrunedEstimate], name: str, direction: Direction
    ) -> None:
        self._name, self._sign = name, sign_of(direction)
        known = [each for each in ranked if each.has_value]
        self._estimates = estimate([[self._sign * value for value in each.seed_values] for each in known])
        self._members: dict[str, list[tuple[int, Ranked]]] = {}
        self._estimated: dict[str, list[PrunedEstimate]] = {}
        for i, each in enumerate(known):
            self._members.setdefault(kind_key(each, name), []).append((i, each))
        for gone in estimated:
            self._estimated.setdefault(kind_key(gone, name), []).append(gone)
        points: list[Point] = [*known, *estimated]
        values = [self._sign * each.value for each in points if each.has_value]
        self._worst = min(values, default=math.nan)
        self._curves: dict[str, RateCurve] = {}

    def of(self, member: Ranked) -> RateCurve:
        """Return the curve that a candidate with a value belongs to."""
        kind = kind_key(member, self._name)
        if kind not in self._curves:
            self._curves[kind] = self._curve(self._members[kind], self._estimated.get(kind, []))
        return self._curves[kind]

    def _curve(self, own: Sequence[tuple[int, Ranked]], gone: Sequence[PrunedEstimate]) -> RateCurve:
        indices, members = [i for i, _ in own], tuple(member for _, member in own)
        pruned = [each for each in gone if each.has_value]
        failed = [each for each in gone if not each.has_value]
        of_kind = self._estimates.of(indices)
        positions = [_position(each, self._name) for each in members]
        fixed = [(_position(each, self._name), self._worst) for each in failed]
        around = [(_position(each, self._name), self._sign * each.value) for each in pruned] + fixed
        smooth = smoothing([*positions, *(position for position, _ in around)]) @ np.array(
            [*of_kind.centers, *(value for _, value in around)]
        )
        expected = blended(of_kind.centers, smooth[: len(members)], of_kind.counts)
        worth = {each.number: float(value) for each, value in zip(members, expected, strict=True)}
        found = peak(of_kind, positions, fixed)
        reaching = _reaching(found, positions, [_position(each, self._name) for each in pruned])
        return RateCurve(members=members, worth=worth, peak=reaching)


def _reaching(found: Peak, positions: Sequence[float], pruned: Sequence[float]) -> Peak:
    """Return the peak, extended to the next pruned rate on each side where it reaches the last complete one.

    A pruned rate may have become the best, the more likely the nearer it is. Replayed over tables of finished runs,
    intervals contain the best rate with this extension.
    """
    below = [position for position in pruned if position < min(positions)]
    above = [position for position in pruned if position > max(positions)]
    low = min(found.low, max(below)) if below and found.low <= min(positions) + 1e-9 else found.low
    high = max(found.high, min(above)) if above and found.high >= max(positions) - 1e-9 else found.high
    return Peak(found.middle, low, high)


def rate_name(points: Sequence[Point]) -> str | None:
    """Return the only parameter that is a learning rate, None if there is none or there are several.

    Some candidates may lack it: those of an optimizer with a schedule.
    """
    names = {name for each in points for name in each.params if is_learning_rate(name)}
    if len(names) != 1:
        return None
    [name] = names
    rates = [each.params[name] for each in points if name in each.params]
    return name if all(math.isfinite(log10_rate(rate)) for rate in rates) else None


def kind_key(point: Point, name: str) -> str:
    """Return a text that is equal for candidates that differ in the rate only, and all have or lack one."""
    others = {key: value for key, value in point.params.items() if key != name}
    return json.dumps([name in point.params, others], sort_keys=True, default=str)


def _position(point: Point, name: str) -> float:
    """Return the decimal logarithm of the rate; candidates without one share a position."""
    return log10_rate(point.params[name]) if name in point.params else 0.0
