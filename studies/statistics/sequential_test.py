"""A race by a test: who is told from the best one leaves, whatever room there is. Pure.

A candidate leaves only when its seeds tell it from the best with a confidence that holds for all comparisons of a rung
together, however many candidates there are (`Estimates.may_be_best`). So nobody leaves by bad luck. But runs that are
clearly behind early may lead at the end, which no test of what is there can know.
"""

from __future__ import annotations

from collections.abc import Sequence

from studies.statistics.drift import drift
from studies.statistics.intervals import estimate
from studies.statistics.racing import Racer, finite

LEVEL = 0.99
"""Confidence with which a candidate must be told from the best one before it leaves."""


def undecided(racers: Sequence[Racer], share: float, *, level: float = LEVEL) -> list[int]:
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
    told = estimate(finite([racers[i].values for i in present])).may_be_best(level)
    may_be_best = [i for i, may_be in zip(present, told, strict=True) if may_be]
    moves, error = drift(share)
    kept = set(may_be_best)
    for i in may_be_best:
        below = {j: racers[i].position - racers[j].position for j in present if racers[j].group == racers[i].group}
        below = {j: distance for j, distance in below.items() if distance > 0}
        reach = max(-moves + 2 * error, min(below.values(), default=0.0) if share < 1 else 0.0)
        kept |= {j for j, distance in below.items() if distance <= reach + 1e-9}
    return sorted(kept)
