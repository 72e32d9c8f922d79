"""How long the runs of a search should be."""

from __future__ import annotations

USUAL_STEPS = 50_000
"""Default budget of a run, and environment steps of a long run where none are given (`horizon`)."""

_SHORTEST = 4
"""Runs should be at least this part of the long run. At a cost of nine long runs, 20 trials of three seeds have runs of
an eighth of it and a regret of 9%, those of one seed a quarter and 3%; of planned rates at equal length, three seeds
are no better than one (benchmarks/results/designs.md)."""


def least_useful_steps(horizon: int | None) -> int:
    """Return the environment steps that a run should have at least for a long run of so many; None: the usual ones."""
    return (USUAL_STEPS if horizon is None else horizon) // _SHORTEST
