"""Racing: who of several candidates stays at a rung, by what a few seeds of each say so far. Pure.

At every rung the worst leave, so that those which are there dwindle in step with what is left of the runs: after 30% of
them the best 70% go on. That is the linear schedule of successive rejects (Audibert, Bubeck and Munos 2010, "Best arm
identification in multi-armed bandits"). It asks no test whether somebody is told from the best: who is clearly behind
early may lead at the end, so that a test is sure of the wrong thing (`studies.statistics.sequential_test` has one, and
`benchmarks/pick.md` what it costs).

What sets this race apart is by what it ranks. Learning rates are compared along their curve: neighbours say something
about each other, which takes out noise, and the curve is read where it will be at the end of the runs and not where it
is now, since a short horizon favours rates that are too high (`studies.statistics.drift`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.statistics.drift import drift
from studies.statistics.rate_curve import blended, smoothing
from studies.statistics.values import iqm

LEAST = 3
"""Candidates that always stay: so many are confirmed by default."""


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


def staying(racers: Sequence[Racer], share: float) -> list[int]:
    """Returns the positions of the racers that stay: the best part of all, as large as what is left of the runs.

    Args:
        racers: All of them, also those that are out already. Seeds that are not finite count as the worst there is.
        share: How much of their runs has been seen, above 0 and at most 1.

    Returns:
        Ascending positions. Those that are equal to the last one that stays, stay too; `LEAST` always do.
    """
    worth = scores(racers, share)
    ordered = sorted(worth.values(), reverse=True)
    n = max(LEAST, math.ceil(len(racers) * (1 - share) - 1e-9))
    return sorted(worth) if n >= len(ordered) else [i for i in sorted(worth) if worth[i] >= ordered[n - 1]]


def scores(racers: Sequence[Racer], share: float) -> dict[int, float]:
    """Returns what each racer that is in the race will be worth, by its seeds and by the curve of its group.

    Args:
        racers: All of them. One that is out was worse: it counts as the worst of those that are there.
        share: See `staying`.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    values = finite([racers[i].values for i in present])
    centers = {i: float(iqm(own)) for i, own in zip(present, values, strict=True)}
    worst = min(centers.values(), default=0.0)
    groups: dict[Hashable, list[int]] = {}
    for i, racer in enumerate(racers):
        groups.setdefault(racer.group if math.isfinite(racer.position) else ("alone", i), []).append(i)
    found: dict[int, float] = {}
    for members in groups.values():
        found |= _along_curve(racers, members, {i: centers.get(i, worst) for i in members}, share)
    return {i: float(f"{found[i]:.12g}") for i in present}  # those that are equal shall be


def _along_curve(
    racers: Sequence[Racer], members: Sequence[int], values: Mapping[int, float], share: float
) -> dict[int, float]:
    """The values of one group, drawn towards those of neighbouring rates, where the curve will be."""
    if len(members) == 1:
        return dict(values)
    ordered = sorted(members, key=lambda i: racers[i].position)
    positions = np.array([racers[i].position for i in ordered])
    own = np.array([values[i] for i in ordered])
    smooth = smoothing(positions.tolist()) @ own
    moves, _ = drift(share)
    later: Any = np.interp(positions - moves, positions, smooth)
    counts = np.array([len(racers[i].values) for i in ordered])
    expected = later + blended(own, smooth, counts) - smooth
    return {i: float(value) for i, value in zip(ordered, expected, strict=True)}


def finite(values: Sequence[Sequence[float]]) -> list[list[float]]:
    """Returns the same with the worst number that there is in place of what is none."""
    known = [value for own in values for value in own if math.isfinite(value)]
    worst = min(known, default=0.0)
    return [[value if math.isfinite(value) else worst for value in own] for own in values]
