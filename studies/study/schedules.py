"""Schedules and divergences of the trials of a study with population-based training, as they are recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from studies.population_based.schedule import Lineage, Member, Schedule, ScheduleEntry, entry_of, lineage
from studies.spec.attributes import EXCHANGED_ATTR, SCHEDULE_ATTR
from studies.spec.population_rules import searched_ranges
from studies.spec.scheduler_names import is_population_based
from studies.statistics.values import sign_of

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
