"""How long the runs of a search should be."""

from __future__ import annotations

USUAL_STEPS = 50_000
"""Default budget of a run, and environment steps of a long run where none are given (`horizon`)."""

_LEAST_PART = 4
"""Runs should be at least this part of the long run: with those of an eighth of it, picks are far from the best
(benchmarks/results/designs.md)."""


def long_run_steps(horizon: int | None) -> int:
    """Return the environment steps of the long run; None: the usual ones."""
    return USUAL_STEPS if horizon is None else horizon


def least_useful_steps(horizon: int | None) -> int:
    """Return the environment steps that a run should have at least for a long run of so many; None: the usual ones."""
    return long_run_steps(horizon) // _LEAST_PART
