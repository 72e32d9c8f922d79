"""The numbers of a plan: its trials, environment steps, time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from finder.budgets.cost import Costs
from finder.budgets.search_plan import TimeEstimate
from finder.executors.choice import PROCESS_BYTES
from studies.adapters.expected_pruning import Course, Stage, expected_courses, kept_trials, run_steps
from studies.judging.search_history import n_finalists
from studies.spec.spec import StudySpec


def most_steps(spec: StudySpec, env_steps: int, n_trials: int) -> int:
    """Return the environment steps of all runs if nothing is pruned; no more than the budget of the search has."""
    unpruned = env_steps * n_trials * len(spec.seeds) + confirming_steps(spec, n_trials)
    return unpruned if spec.total_env_steps is None else min(unpruned, spec.total_env_steps)


def confirming_steps(spec: StudySpec, n_trials: int) -> int:
    """Return the environment steps of all runs of the confirmation."""
    return spec.confirm_budget * n_finalists(spec, n_trials) * spec.confirm_seeds


def expected_steps(spec: StudySpec, courses: Sequence[Course], n_trials: int) -> int:
    """Return the environment steps of all runs with the expected pruning."""
    return len(spec.seeds) * sum(map(run_steps, courses)) + confirming_steps(spec, n_trials)


def with_budget(spec: StudySpec, env_steps: int, confirm_env_steps: int | None = None) -> StudySpec:
    """Return a study with another budget of each run, and if it is given of each run that confirms."""
    changes: dict[str, Any] = {"env_steps": env_steps, "confirm_env_steps": confirm_env_steps}
    return spec.model_copy(update={name: value for name, value in changes.items() if value is not None})


def estimated_time(spec: StudySpec, costs: Costs, n_trials: int, at_once: int | None) -> TimeEstimate:
    """Estimate the time of a search with a budget in environment steps."""
    courses = expected_courses(spec, n_trials, at_once)
    costs = costs.of_study(spec)
    seconds = sum(costs.batch_seconds(course, len(spec.seeds)) for course in courses)
    n_confirmed = n_finalists(spec, n_trials)
    return TimeEstimate(
        start_seconds=costs.start_seconds(len(courses), n_confirmed),
        search_seconds=seconds,
        confirmation_seconds=confirmation_seconds(spec, costs, n_confirmed, spec.confirm_seeds),
        minutes=spec.minutes,
    )


def confirmation_seconds(spec: StudySpec, costs: Costs, n_trials: int, n_seeds: int) -> float:
    """Return the seconds of a confirmation, without the start of processes."""
    if not n_trials or spec.env_steps is None:
        return 0.0
    return costs.confirmation_seconds(spec.confirm_budget, n_trials, n_seeds)


def rungs_of(courses: Sequence[Course]) -> tuple[Stage, ...]:
    """Return the rungs of the first batch."""
    return tuple(kept_trials(courses[0])) if courses else ()


def memory_of(costs: Costs, n_runs: int) -> float:
    """Return the bytes of all processes, each with its share of the runs that are trained at the same time."""
    of_runs = n_runs * max(speed.run_bytes for speed in costs.speeds.values())
    return costs.n_processes * PROCESS_BYTES + of_runs
