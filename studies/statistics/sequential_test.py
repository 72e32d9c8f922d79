"""Race by significance test: candidates that are distinguishable from the best one are removed. Pure functions.

A candidate is removed only at a confidence that holds for all comparisons of a rung together (`Estimates.may_be_best`),
so none is removed by bad luck. But runs that are clearly behind early may lead at the end, which no test of present
values can know.
"""

from __future__ import annotations

from collections.abc import Sequence

from studies.statistics.drift import drift
from studies.statistics.intervals import estimate
from studies.statistics.racing import Racer, finite

LEVEL = 0.99
"""Confidence at which a candidate must be distinguishable from the best one to be removed."""


def undecided(racers: Sequence[Racer], share: float, *, level: float = LEVEL) -> list[int]:
    """Return the positions of the candidates that may be the best, or may become it.

    A rate may become the best if a higher rate may be the best now, and the distance between them is within the
    expected drift (plus two standard deviations), or if it is the next lower one.

    Args:
        racers: All candidates, removed ones included. Seeds that are not finite count as the worst value.
        share: Elapsed share of the runs, above 0 and at most 1.
        level: See `LEVEL`. With one seed each, distances between candidates are the only information about the spread.
    """
    present = [i for i, racer in enumerate(racers) if racer.values]
    if len(present) < 2:
        return present
    tied = estimate(finite([racers[i].values for i in present])).may_be_best(level)
    may_be_best = [i for i, may_be in zip(present, tied, strict=True) if may_be]
    moves, error = drift(share)
    kept = set(may_be_best)
    for i in may_be_best:
        below = {j: racers[i].position - racers[j].position for j in present if racers[j].group == racers[i].group}
        below = {j: distance for j, distance in below.items() if distance > 0}
        reach = max(-moves + 2 * error, min(below.values(), default=0.0) if share < 1 else 0.0)
        kept |= {j for j, distance in below.items() if distance <= reach + 1e-9}
    return sorted(kept)
