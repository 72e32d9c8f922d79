"""Racing: who of several candidates stays at a rung, by what a few seeds of each say so far. Pure.

Two things set it apart from keeping the best part. A candidate leaves only when it is told from the best one, however
many candidates there are (`Estimates.may_be_best`), so that nobody leaves by bad luck. And learning rates are compared
along their curve: neighbours say something about each other, which takes out noise, and since a short horizon favours
rates that are too high, the next lower rate of one that stays is kept too.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from studies.statistics import estimate
from studies.values import iqm

LEVEL = 0.95
"""Confidence with which a candidate must be told from the best one before it leaves."""

NEIGHBOURS = 0.5
"""Weight of the two neighbouring rates in the curve that is compared, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """A candidate of a race.

    Attributes:
        values: What each of its seeds is worth at the rung, higher is better; empty if it is out of the race already.
        group: Those of one group differ in nothing but their learning rate.
        position: Decimal logarithm of its learning rate; NaN where it has none.
    """

    values: tuple[float, ...]
    group: Hashable = None
    position: float = math.nan


def staying(
    racers: Sequence[Racer], *, level: float = LEVEL, neighbours: float = NEIGHBOURS, room: int | None = None
) -> list[int]:
    """Returns the positions of the racers that stay: those which may be the best, each with its next lower rate.

    Args:
        racers: All of them, also those that are out already. Seeds that are not finite count as the worst there is.
        level: See `LEVEL`. With one seed each nothing is known of the spread but how far apart they are.
        neighbours: See `NEIGHBOURS`.
        room: How many may stay at most, those first whose curve is best there; None for all that may be the best.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    if len(present) < 2:
        return present
    values = _finite([racers[i].values for i in present])
    level_with_best = estimate(values).may_be_best(level)
    undecided = [i for i, may_be in zip(present, level_with_best, strict=True) if may_be]
    worth = scores(racers, neighbours)
    kept: list[int] = []
    for i in sorted(undecided, key=lambda i: -worth[i]):
        for candidate in (i, _next(racers, i, present, below=True)):
            if candidate is not None and candidate not in kept and (room is None or len(kept) < room):
                kept.append(candidate)
    return sorted(kept)


def scores(racers: Sequence[Racer], neighbours: float = NEIGHBOURS) -> dict[int, float]:
    """Returns what each racer that is in the race is worth, with a share of what its neighbours in learning rate are.

    A neighbour that is out was worse: it counts as the worst of those that are there.

    Args:
        racers: All of them.
        neighbours: See `NEIGHBOURS`.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    values = _finite([racers[i].values for i in present])
    centers = {i: float(iqm(own)) for i, own in zip(present, values, strict=True)}
    worst = min(centers.values(), default=0.0)
    weight = neighbours / 2
    smooth = {}
    for i in present:
        ends = (_next(racers, i, range(len(racers)), below=below) for below in (True, False))
        near = [centers.get(other, worst) for other in ends if other is not None]
        smooth[i] = (centers[i] + weight * sum(near)) / (1 + weight * len(near))
    return smooth


def _finite(values: Sequence[Sequence[float]]) -> list[list[float]]:
    """The same with the worst number that there is in place of what is none."""
    known = [value for own in values for value in own if math.isfinite(value)]
    worst = min(known, default=0.0)
    return [[value if math.isfinite(value) else worst for value in own] for own in values]


def _next(racers: Sequence[Racer], i: int, among: Sequence[int], *, below: bool) -> int | None:
    """The racer of the same group with the next lower (or higher) rate."""
    own = racers[i]
    sign = -1.0 if below else 1.0
    distances = {
        other: sign * (racers[other].position - own.position) for other in among if racers[other].group == own.group
    }
    nearest = [other for other, distance in distances.items() if distance > 0]  # never with NaN: it has no rate
    return min(nearest, key=lambda other: distances[other], default=None)


def log10_rate(rate: object) -> float:
    """Returns the decimal logarithm of a learning rate, NaN for what is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not rate > 0:
        return math.nan
    return math.log10(rate)
