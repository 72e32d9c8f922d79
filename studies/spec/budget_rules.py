"""Rules of budgets: which exclude each other, how long runs should be, and what the runs that confirm may have."""

from __future__ import annotations

import math

from studies.errors import StudyError
from studies.spec.fields import SpecFields
from studies.spec.scheduler_names import is_population_based

USUAL_STEPS = 50_000
"""Default budget of a run, and environment steps of a long run where none are given (`horizon`)."""

_LEAST_PART = 4
"""Runs should be at least this part of the long run: with those of an eighth of it, picks are far from the best
(benchmarks/results/designs.md)."""


def check_budgets(spec: SpecFields) -> None:
    """Raise `StudyError` if budgets contradict each other."""
    if spec.minutes is not None and spec.total_env_steps is not None:
        raise StudyError(
            f"minutes is {spec.minutes:g} and total_env_steps is {spec.total_env_steps}: give one of the two."
        )
    if not spec.chooses_budget:
        if (spec.env_steps is None) == (spec.episodes is None):
            given = "both of env_steps and episodes were" if spec.episodes else "neither of env_steps and episodes was"
            raise StudyError(f"{given} given: give exactly one as each seed's budget.")
        if spec.episodes is not None and spec.has_limit:
            field = spec.limit_field
            raise StudyError(
                f"{field} is for runs in environment steps: give env_steps instead of episodes, or leave both out."
            )
    if spec.horizon is not None and spec.env_steps is None and not spec.chooses_budget:
        raise StudyError(
            f"horizon is {spec.horizon} environment steps, but the budget is in episodes: give env_steps instead."
        )
    if spec.confirm_env_steps is not None:
        _check_confirming_runs(spec, spec.confirm_env_steps)


def _check_confirming_runs(spec: SpecFields, env_steps: int) -> None:
    given = f"confirm_env_steps is {env_steps}"
    if spec.episodes is not None:
        raise StudyError(f"{given} environment steps, but the budget is in episodes: give env_steps instead.")
    if not spec.confirm:
        raise StudyError(
            f"{given}, but confirm is 0, so that no trial is run again: give confirm=2, or leave confirm_env_steps out."
        )
    if is_population_based(spec.pruner):
        raise StudyError(
            f"{given} with the scheduler {spec.pruner}, whose schedules are as long as the runs of the search: leave "
            "confirm_env_steps out."
        )
    if spec.env_steps is not None and env_steps < spec.env_steps:
        raise StudyError(
            f"{given}, fewer than the {spec.env_steps} of each run of the search (env_steps): give at least as many."
        )


def exceeds_horizon(spec: SpecFields) -> str:
    """Return the field of runs that are longer than the long run; "" if none are."""
    longest = math.inf if spec.horizon is None else spec.horizon
    return next((name for name in ("env_steps", "confirm_env_steps") if (getattr(spec, name) or 0) > longest), "")


def check_horizon(spec: SpecFields) -> None:
    """Raise `StudyError` if runs are longer than the long run. Studies of earlier versions may have such runs."""
    if name := exceeds_horizon(spec):
        raise StudyError(
            f"{name} is {getattr(spec, name)} and horizon is {spec.horizon}, the environment steps of the long run, "
            f"which no run of a search exceeds: give fewer {name}, or a longer horizon."
        )


def long_run_steps(horizon: int | None) -> int:
    """Return the environment steps of the long run; None: the usual ones."""
    return USUAL_STEPS if horizon is None else horizon


def least_useful_steps(horizon: int | None) -> int:
    """Return the environment steps that a run should have at least for a long run of so many; None: the usual ones."""
    return long_run_steps(horizon) // _LEAST_PART
