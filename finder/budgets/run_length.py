"""How long the runs of a search should be."""

from __future__ import annotations

from studies.defaults import LEAST_PART

USUAL_STEPS = 50_000
"""Default budget of a run, and environment steps of a long run where none are given (`horizon`)."""


def long_run_steps(horizon: int | None) -> int:
    """Return the environment steps of the long run; None: the usual ones."""
    return USUAL_STEPS if horizon is None else horizon


def least_useful_steps(horizon: int | None) -> int:
    """Return the environment steps that a run should have at least for a long run of so many; None: the usual ones."""
    return long_run_steps(horizon) // LEAST_PART
