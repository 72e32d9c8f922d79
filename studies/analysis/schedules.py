"""Schedules of the trials of a study with population-based training, as they are recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from studies.population_based.schedule import Lineage, Member, Schedule, ScheduleEntry, entry_of, lineage
from studies.spec.attributes import EXCHANGED_ATTR, SCHEDULE_ATTR
from studies.spec.population_rules import searched_ranges
from studies.spec.scheduler_names import is_population_based
from studies.statistics.values import sign_of
from studies.words import counted, param_text, params_text

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy


def schedule_of(spec: StudySpec, trial: FrozenTrial) -> Schedule:
    """Return the schedule of a trial: that of its parameters where nothing else is recorded."""
    recorded = trial.user_attrs.get(SCHEDULE_ATTR)
    if recorded:
        return tuple(entry_of(each) for each in recorded)
    params = {name: float(trial.params[name]) for name in searched_ranges(spec) if name in trial.params}
    return (ScheduleEntry(env_steps=0, params=params),)


def member_of(spec: StudySpec, trial: FrozenTrial) -> Member:
    """Return a trial as a member of its population."""
    sign = sign_of(spec.direction)
    recorded: Mapping[str, float | None] = trial.user_attrs.get(EXCHANGED_ATTR, {})
    values = {int(step): -math.inf if value is None else sign * value for step, value in recorded.items()}
    return Member(number=trial.number, schedule=schedule_of(spec, trial), values=values)


def divergences_of(study: OpenStudy) -> dict[int, tuple[int, ...]]:
    """Return trial -> steps at which it copied another one because it had diverged; without trials that never did."""
    if not is_population_based(study.spec.pruner):
        return {}
    found = {trial.number: member_of(study.spec, trial).divergences for trial in study.trials()}
    return {number: steps for number, steps in found.items() if steps}


def schedules_of(study: OpenStudy) -> dict[int, Schedule]:
    """Return the schedule of every trial of the search, by number."""
    return {trial.number: schedule_of(study.spec, trial) for trial in study.trials()}


def lineage_of(study: OpenStudy, number: int) -> Lineage | None:
    """Return the schedule of the weights of a trial; None if the study is no population-based training.

    Raises:
        StudyError: A trial that it was copied from does not exist any more.
    """
    if not is_population_based(study.spec.pruner):
        return None
    return lineage(number, schedules_of(study))


def lineages_of(study: OpenStudy) -> dict[int, Lineage]:
    """Return the schedule of the weights of every trial, by number; empty without population-based training.

    Raises:
        StudyError: A trial that another one was copied from does not exist any more.
    """
    if not is_population_based(study.spec.pruner):
        return {}
    schedules = schedules_of(study)
    return {number: lineage(number, schedules) for number in schedules}


def schedule_text(schedule: Schedule) -> str:
    """Return a schedule in short: `learning_rate 1e-3 → 4e-4, ent_coef 0.01 → 0.02, in 3 changes`.

    Args:
        schedule: The schedule; with one entry, its numbers.
    """
    first, last = schedule[0].params, schedule[-1].params
    if len(schedule) == 1:
        return params_text(dict(first))
    names = sorted(first, key=lambda name: ("learning_rate" not in name, name))
    numbers = ", ".join(f"{name} {_change_text(name, first[name], last[name])}" for name in names)
    return f"{numbers}, in {counted(len(schedule) - 1, 'change')}"


def _change_text(name: str, first: float, last: float) -> str:
    return f"{param_text(name, first)} → {param_text(name, last)}"


def shown_params(params: Mapping[str, Any], weights: Lineage | None) -> dict[str, Any]:
    """Return the parameters of a trial for display: with population-based training, as the weights had them.

    Args:
        params: Its parameters, with the numbers that it began with.
        weights: The schedule of its weights; None if its parameters were constant.
    """
    if weights is None:
        return dict(params)
    first, last = weights.schedule[0].params, weights.schedule[-1].params
    changed = {
        name: _change_text(name, value, last[name]) if value != last[name] else value for name, value in first.items()
    }
    return {**params, **changed}


def repeated(
    params: Mapping[str, Any], weights: Lineage | None
) -> tuple[dict[str, Any], tuple[tuple[int, dict[str, float]], ...]]:
    """Return the parameters with which the confirmation of a trial begins, and the changes that it repeats.

    The weights of a finalist come from other members, so that its confirmation begins with the numbers of the first of
    these, and repeats the numbers of each in its time.

    Args:
        params: Parameters of the finalist, with the numbers that it began with.
        weights: The schedule of its weights; None if its parameters were constant.
    """
    if weights is None:
        return dict(params), ()
    first, *changes = weights.schedule
    return {**params, **first.params}, tuple((each.env_steps, dict(each.params)) for each in changes)


def schedule_lines(schedule: Schedule, env_steps: int | None, long_run: int) -> str:
    """Return Python code of a callback that follows a schedule in a long run; "" if it has no changes.

    Args:
        schedule: The schedule.
        env_steps: Environment steps of the run that it was recorded in.
        long_run: Environment steps of the long run.
    """
    if len(schedule) < 2:
        return ""
    of = "" if env_steps is None else f"  # stretched from {env_steps:,} to {long_run:,} environment steps"
    factor = 1.0 if env_steps is None else long_run / env_steps
    changes = "".join(f"    ({round(factor * each.env_steps)}, {dict(each.params)!r}),\n" for each in schedule[1:])
    return f"schedule = agents.HyperparameterSchedule([{of}\n{changes}])\n"
