"""Schedules of the trials of a study with population-based training, as they are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from studies.population_based.schedule import Lineage, Member, Schedule, ScheduleEntry, entry_of, lineage
from studies.spec.attributes import EXCHANGED_ATTR, SCHEDULE_ATTR
from studies.spec.population_rules import searched_ranges
from studies.spec.scheduler_names import is_population_based

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
    sign = 1.0 if spec.direction == "maximize" else -1.0
    values = {int(step): sign * value for step, value in trial.user_attrs.get(EXCHANGED_ATTR, {}).items()}
    return Member(number=trial.number, schedule=schedule_of(spec, trial), values=values)


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


def schedule_text(schedule: Schedule, budget: int | None = None) -> str:
    """Return a schedule as text, such as `learning_rate 0.001 → 0.0008 at 20,000 → 0.0012 at 40,000`.

    Args:
        schedule: The schedule.
        budget: Environment steps of the run, which are appended; None to leave them out.
    """
    texts = []
    for name in schedule[0].params:
        changes = [(entry.env_steps, entry.params[name]) for entry in schedule]
        text = f"{name} {changes[0][1]:.3g}"
        before = changes[0][1]
        for at, value in changes[1:]:
            if value != before:
                text += f" → {value:.3g} at {at:,}"
            before = value
        texts.append(text)
    of = "" if budget is None else f" (of {budget:,} environment steps)"
    return "; ".join(texts) + of
