"""Racing: who of several candidates stays at a rung, by what a few seeds of each say so far. Pure.

Two things set it apart from keeping the best part. A candidate leaves only when it is told from the best one, however
many candidates there are (`Estimates.may_be_best`), so that nobody leaves by bad luck. And learning rates are compared
along their curve: neighbours say something about each other, which takes out noise, and the curve is read where it will
be at the end of the runs and not where it is now, since a short horizon favours rates that are too high
(`studies.drift`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.drift import drift
from studies.rate_curve import smoothing
from studies.statistics import estimate
from studies.values import iqm

LEVEL = 0.99
"""Confidence with which a candidate must be told from the best one before it leaves."""


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


def staying(racers: Sequence[Racer], share: float, *, level: float = LEVEL) -> list[int]:
    """Returns the positions of the racers that stay: those which may be the best, or may become it.

    A rate may become the best if one above it may be the best now, and is no farther than the best rate still moves
    (with two standard deviations of that), or is the next one.

    Args:
        racers: All of them, also those that are out already. Seeds that are not finite count as the worst there is.
        share: How much of their runs has been seen, above 0 and at most 1.
        level: See `LEVEL`. With one seed each nothing is known of the spread but how far apart they are.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    if len(present) < 2:
        return present
    told = estimate(_finite([racers[i].values for i in present])).may_be_best(level)
    undecided = [i for i, may_be in zip(present, told, strict=True) if may_be]
    moves, error = drift(share)
    kept = set(undecided)
    for i in undecided:
        below = {j: racers[i].position - racers[j].position for j in present if racers[j].group == racers[i].group}
        below = {j: distance for j, distance in below.items() if distance > 0}
        reach = max(-moves + 2 * error, min(below.values(), default=0.0) if share < 1 else 0.0)
        kept |= {j for j, distance in below.items() if distance <= reach + 1e-9}
    return sorted(kept)


def scores(racers: Sequence[Racer], share: float) -> dict[int, float]:
    """Returns what each racer that is in the race will be worth: what the curve of its group says of its rate.

    Args:
        racers: All of them. One that is out was worse: it counts as the worst of those that are there.
        share: See `staying`.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    values = _finite([racers[i].values for i in present])
    centers = {i: float(iqm(own)) for i, own in zip(present, values, strict=True)}
    worst = min(centers.values(), default=0.0)
    groups: dict[Hashable, list[int]] = {}
    for i, racer in enumerate(racers):
        groups.setdefault(racer.group if math.isfinite(racer.position) else ("alone", i), []).append(i)
    found: dict[int, float] = {}
    for members in groups.values():
        found |= _along_curve(racers, members, {i: centers.get(i, worst) for i in members}, share)
    return {i: found[i] for i in present}


def _along_curve(
    racers: Sequence[Racer], members: Sequence[int], values: Mapping[int, float], share: float
) -> dict[int, float]:
    """The values of one group, smoothed over neighbouring rates and read where the curve will be."""
    if len(members) == 1:
        return dict(values)
    ordered = sorted(members, key=lambda i: racers[i].position)
    positions = np.array([racers[i].position for i in ordered])
    smooth = smoothing(positions.tolist()) @ np.array([values[i] for i in ordered])
    moves, _ = drift(share)
    later: Any = np.interp(positions - moves, positions, smooth)
    return {i: float(value) for i, value in zip(ordered, later, strict=True)}


def _finite(values: Sequence[Sequence[float]]) -> list[list[float]]:
    """The same with the worst number that there is in place of what is none."""
    known = [value for own in values for value in own if math.isfinite(value)]
    worst = min(known, default=0.0)
    return [[value if math.isfinite(value) else worst for value in own] for own in values]
