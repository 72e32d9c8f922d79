"""Exchanges of a running population: decided from what is recorded, and recorded before they are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from studies.population_based.by_name import population_based_of
from studies.population_based.population_based import Perturbation
from studies.population_based.schedule import Member, ScheduleEntry
from studies.spec.attributes import EXCHANGED_ATTR, SCHEDULE_ATTR
from studies.statistics.values import mean_of_seeds, sign_of
from studies.study.schedules import member_of

if TYPE_CHECKING:
    from optuna.trial import Trial

    from studies.recording.writer import Writer
    from studies.spaces.spaces import Json
    from studies.study.study import OpenStudy


class Exchanges:
    """Exchanges between the trials that this process trains as members of one population.

    A population that resumes from a checkpoint reaches steps after it a second time: what was recorded there and later
    is replaced.

    Args:
        study: The study.
        writer: Writes attributes of trials.
    """

    def __init__(self, study: OpenStudy, writer: Writer) -> None:
        self._study, self._writer = study, writer
        self._scheduler = population_based_of(study.spec)
        self._members: dict[int, Member] = {}

    def at(
        self,
        env_steps: int,
        trials: Sequence[Trial],
        values: Mapping[int, Mapping[int, float]],
        unless_lost: Callable[[Trial], AbstractContextManager[None]],
    ) -> list[Perturbation]:
        """Record the values of members at the end of an interval, and return who copies whom.

        Args:
            env_steps: Environment steps of each run of each member.
            trials: Running trials, all members of the population.
            values: Trial -> seed -> value in the interval; trials that diverged in it have none.
            unless_lost: Drops a trial if a write to it is rejected.
        """
        assert self._scheduler is not None
        for trial in trials:
            own = values.get(trial.number, {})
            self._members[trial.number] = self._with_value(self._member(trial), env_steps, own)
        numbers = {trial.number for trial in trials}
        found = self._scheduler.decide(env_steps, [*map(self._member, trials), *self._others(numbers, env_steps)])
        for each in found:
            member = self._members[each.number]
            entry = ScheduleEntry(env_steps=env_steps, params=each.params, copied_from=each.copied_from)
            self._members[each.number] = replace(member, schedule=(*member.schedule, entry))
        for trial in trials:
            with unless_lost(trial):
                self._writer.attrs(trial, self.attrs(trial.number))
        return found

    def attrs(self, number: int) -> dict[str, Json]:
        """Return the attributes of a trial of a population; none for other trials."""
        member = self._members.get(number)
        if member is None:
            return {}
        sign = self._sign
        return {
            SCHEDULE_ATTR: [entry.to_json() for entry in member.schedule],
            EXCHANGED_ATTR: {
                str(step): sign * value if value > -math.inf else None for step, value in member.values.items()
            },
        }

    @property
    def _sign(self) -> float:
        return sign_of(self._study.direction)

    def _member(self, trial: Trial) -> Member:
        """Return a member as it is recorded so far."""
        if trial.number not in self._members:
            frozen = self._study.study._storage.get_trial(trial._trial_id)
            self._members[trial.number] = member_of(self._study.spec, frozen)
        return self._members[trial.number]

    def _others(self, numbers: Collection[int], env_steps: int) -> list[Member]:
        """Return all other members, with their values before a step, from which PB2 learns.

        They have failed, were stopped, have no value at the step, or are of an earlier population. A process that
        resumes the study finds the same ones, in the same order.

        Args:
            numbers: Members with a value at the step.
            env_steps: The step.
        """
        for trial in self._study.trials():  # of earlier processes, too
            if trial.number not in self._members and EXCHANGED_ATTR in trial.user_attrs:
                self._members[trial.number] = member_of(self._study.spec, trial)
        others = [member for number, member in sorted(self._members.items()) if number not in numbers]
        earlier = [
            replace(member, values={step: value for step, value in member.values.items() if step < env_steps})
            for member in others
        ]
        return [member for member in earlier if member.values]

    def _with_value(self, member: Member, env_steps: int, seed_values: Mapping[int, float]) -> Member:
        """Return a member with its value at a step, and without what was recorded there before and later."""
        values = {step: own for step, own in member.values.items() if step < env_steps}
        if not seed_values:
            values[env_steps] = -math.inf
        elif math.isfinite(value := self._sign * float(mean_of_seeds(list(seed_values.values())))):
            values[env_steps] = value
        schedule = tuple(entry for entry in member.schedule if entry.env_steps < env_steps)
        return replace(member, values=values, schedule=schedule)
