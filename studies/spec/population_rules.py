"""Rules of population-based training: the settings of a study that it needs, and the steps of its exchanges."""

from __future__ import annotations

from studies.errors import StudyError
from studies.spaces.conditions import condition_text
from studies.spaces.spaces import Fixed, FloatRange
from studies.spec.fields import SpecFields
from studies.spec.metrics import metric_of
from studies.spec.scheduler_names import is_grid, is_population_based

N_INTERVALS = 10
"""Default number of intervals in the budget of a run."""

PERTURB_STEPS = "perturb_steps"
"""Argument of the scheduler: environment steps of an interval."""

FEWEST = 2
"""Smallest number of members of a population in which one copies another."""


def perturb_steps_of(spec: SpecFields) -> int:
    """Return the environment steps of an interval; 0 if it has no valid length, which the scheduler refuses."""
    given = spec.pruner_kwargs.get(PERTURB_STEPS)
    if given is None:
        return max(1, (spec.env_steps or 0) // N_INTERVALS)
    return given if isinstance(given, int) and not isinstance(given, bool) else 0


def exchange_marks(spec: SpecFields) -> range:
    """Return the steps at which members copy each other: the ends of all intervals but the last; often none.

    The last interval is at least half as long as the others: a copy has to train before it is judged.
    """
    if not is_population_based(spec.pruner) or spec.env_steps is None:
        return range(0)
    every = perturb_steps_of(spec)
    return range(every, spec.env_steps - every // 2, every) if every > 0 else range(0)


def value_steps(spec: SpecFields) -> int | None:
    """Return the last environment steps of a run that its final value is the mean over; None for the usual last part.

    They are the last interval, before which a member may have copied another one: at least a twentieth of the budget,
    at most a fifth. Confirmations, which copy nothing, are judged by the same part. (Copies are made at the end of the
    rollout in which an interval ends, and what members did until then is left out: `finder.trials.runs.SeedRun`.)
    """
    marks = exchange_marks(spec)
    if not marks or spec.env_steps is None:
        return None
    return max(spec.env_steps // 20, min(spec.env_steps // 5, spec.env_steps - marks[-1]), 1)


def searched_ranges(spec: SpecFields) -> dict[str, FloatRange]:
    """Return the parameters whose numbers population-based training changes, with their ranges."""
    return {name: space for name, space in spec.search_space().items() if isinstance(space, FloatRange)}


def check_population_based(spec: SpecFields) -> None:
    """Check a study, if it has population-based training.

    Raises:
        StudyError: Something in the study excludes it; the message tells what to do.
    """
    if not is_population_based(spec.pruner):
        return
    name = f"population-based training ({spec.pruner})"
    if spec.env_steps is None:
        given = "in episodes" if spec.episodes is not None else "of the whole search"
        raise StudyError(f"{name} needs intervals in environment steps, and the budget is {given}: give env_steps.")
    if spec.has_limit:
        raise StudyError(
            f"{name} trains all members to the end of their budget: leave minutes and total_env_steps out, and "
            "give env_steps and n_trials."
        )
    if len(spec.agents) > 1:
        raise StudyError(f"{name} copies members of one agent, and agents is {list(spec.agents)}: give one of them.")
    if spec.trials or is_grid(spec.sampler):
        raise StudyError(f"{name} starts from what a sampler proposes, and this study has a plan: leave it out.")
    if spec.baseline is not None:
        raise StudyError(f"baseline is given, but {name} changes the parameters of every trial: leave it out.")
    if spec.n_trials < FEWEST:
        raise StudyError(f"n_trials is {spec.n_trials}: {name} needs at least {FEWEST} members, better 8 to 32.")
    if not metric_of(spec.metric).of_last_part:
        raise StudyError(
            f"metric is {spec.metric!r}, a number of the whole curve of a run, which is made of several runs under "
            f"{name}: use return, greedy-return, success-rate, custom:NAME or loss."
        )
    _check_places(spec, name)
    _check_spaces(spec, name)
    every, budget = spec.pruner_kwargs.get(PERTURB_STEPS), spec.env_steps
    if every is not None and not exchange_marks(spec):
        raise StudyError(
            f"perturb_steps is {every!r}: give environment steps from 1 to below {2 * budget / 3:,.0f}, two thirds of "
            "the budget of a run, so that members copy each other at least once."
        )


def _check_places(spec: SpecFields, name: str) -> None:
    """Raise `StudyError` if trials are not members of one population in one process."""
    together = f"{name} has all members in one population of one process"
    if spec.executor not in ("auto", "population"):
        raise StudyError(f"executor is {spec.executor!r}, but {together}: leave it out.")
    if spec.n_jobs not in (None, 1):
        raise StudyError(f"n_jobs is {spec.n_jobs}, but {together}: leave it out.")
    if spec.strategy != "none":
        raise StudyError(f"strategy is {spec.strategy!r}, but {together}: leave it out.")
    n_runs = spec.n_trials * len(spec.seeds)
    if spec.population is not None and spec.population < n_runs:
        raise StudyError(
            f"population is {spec.population}, but {together}, which are {spec.n_trials} trials with "
            f"{len(spec.seeds)} seeds: leave it out, or give at least {n_runs}."
        )


def _check_spaces(spec: SpecFields, name: str) -> None:
    """Raise `StudyError` for a parameter that is no plain range of real numbers."""
    for parameter, space in spec.search_space().items():
        if space.when:
            raise StudyError(
                f"{parameter} exists{condition_text(space)} only, and {name} changes numbers that every member has: "
                f"search it without the condition, or fix it."
            )
        if isinstance(space, Fixed) or (isinstance(space, FloatRange) and space.step is None):
            continue
        raise StudyError(
            f"{parameter} is searched over {_text(space)}, and {name} multiplies real numbers while agents train: give "
            f"a range of real numbers without steps, or fix it (--set {parameter}=VALUE; in Python fixed) and choose "
            "its value by a search with another scheduler first."
        )
    if not searched_ranges(spec):
        raise StudyError(f"{name} has no number to change: search at least one, such as learning_rate=1e-5:1e-2.")


def _text(space: object) -> str:
    """Return a space for errors."""
    values = getattr(space, "values", None)
    if values is not None:
        return f"the values {list(values)}"
    kind = "real" if isinstance(space, FloatRange) else "whole"
    return f"{kind} numbers from {getattr(space, 'low', '?')} to {getattr(space, 'high', '?')}" + (
        f" in steps of {space.step}" if isinstance(space, FloatRange) else ""
    )
