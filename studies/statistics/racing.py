"""Racing: selection of the candidates that continue after a rung, from a few seeds of each. Pure functions.

The worst candidates are removed at every rung, in proportion to the elapsed share of the runs: after 30% of a run, the
best 70% continue. This is the linear schedule of successive rejects (Audibert, Bubeck and Munos 2010, "Best arm
identification in multi-armed bandits"). No significance test is involved: candidates that are clearly behind early may
lead at the end, so a test would be certain of the wrong thing (`studies.statistics.sequential_test` provides one, and
`benchmarks/pick.md` shows its cost).

The ranking is what distinguishes this race. Learning rates are compared along their curve: neighbouring rates share
information, which reduces noise, and the curve is evaluated at its expected position at the end of the runs, since a
short horizon favours rates that are too high (`studies.statistics.drift`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.statistics.drift import drift
from studies.statistics.rate_curve import blended, smoothing
from studies.statistics.values import mean_of_seeds

LEAST = 3
"""Candidates that always continue, the number that is confirmed by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """Candidate of a race.

    Attributes:
        values: Values of its seeds at the rung, higher is better; empty if it was removed before.
        group: Candidates of one group differ in their learning rate only.
        position: Decimal logarithm of its learning rate; NaN if it has none.
    """

    values: tuple[float, ...]
    group: Hashable = None
    position: float = math.nan


def survivors(racers: Sequence[Racer], share: float) -> list[int]:
    """Return the positions of the candidates that continue.

    Args:
        racers: All candidates, removed ones included. Seeds that are not finite count as the worst value.
        share: Elapsed share of the runs, above 0 and at most 1.

    Returns:
        Ascending positions. Candidates equal to the last one that continues, continue too, and at least `LEAST`.
    """
    worth = scores(racers, share)
    ordered = sorted(worth.values(), reverse=True)
    n = max(LEAST, math.ceil(len(racers) * (1 - share) - 1e-9))
    return sorted(worth) if n >= len(ordered) else [i for i in sorted(worth) if worth[i] >= ordered[n - 1]]


def scores(racers: Sequence[Racer], share: float) -> dict[int, float]:
    """Return the expected final score of each candidate in the race, from its seeds and the curve of its group.

    Args:
        racers: All candidates. A removed one counts as the worst of the present ones.
        share: See `survivors`.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    values = finite([racers[i].values for i in present])
    centers = {i: float(mean_of_seeds(own)) for i, own in zip(present, values, strict=True)}
    worst = min(centers.values(), default=0.0)
    groups: dict[Hashable, list[int]] = {}
    for i, racer in enumerate(racers):
        groups.setdefault(racer.group if math.isfinite(racer.position) else ("alone", i), []).append(i)
    found: dict[int, float] = {}
    for members in groups.values():
        found |= _along_curve(racers, members, {i: centers.get(i, worst) for i in members}, share)
    return {i: float(f"{found[i]:.12g}") for i in present}  # so that equal scores compare equal


def _along_curve(
    racers: Sequence[Racer], members: Sequence[int], values: Mapping[int, float], share: float
) -> dict[int, float]:
    """Return the values of one group, shrunk towards neighbouring rates, at the expected position of the curve."""
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
    """Return the values with the worst finite number in place of those that are not finite."""
    known = [value for own in values for value in own if math.isfinite(value)]
    worst = min(known, default=0.0)
    return [[value if math.isfinite(value) else worst for value in own] for own in values]
