"""Schedules: the numbers that a member of a population had from which step on, and where its weights come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from studies.errors import StudyError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """Numbers of a member from an environment step on.

    Attributes:
        env_steps: Environment steps of each run of the member.
        params: All searched parameters.
        copied_from: Number of the trial whose state the member copied at this step; None if it kept its own.
    """

    env_steps: int
    params: Mapping[str, float]
    copied_from: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values; `entry_of` restores it."""
        return {"env_steps": self.env_steps, "params": dict(self.params), "copied_from": self.copied_from}


Schedule = tuple[ScheduleEntry, ...]
"""Entries of one member, oldest first; the first one is at step 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Member of a population, as it is recorded.

    Attributes:
        number: Number of its trial.
        schedule: Its schedule so far.
        values: Environment steps of an interval's end -> value of the member in that interval; higher is better, never
            NaN, and minus infinity if it diverged. Steps at which it had no value are missing.
    """

    number: int
    schedule: Schedule
    values: Mapping[int, float] = field(default_factory=dict)

    def params_at(self, env_steps: int) -> Mapping[str, float]:
        """Return the numbers with which the member trained up to a step, those set at the step not included."""
        return next(entry.params for entry in reversed(self.schedule) if entry.env_steps < env_steps)

    @property
    def divergences(self) -> tuple[int, ...]:
        """Steps at which it copied another member because it had diverged."""
        steps = [entry.env_steps for entry in self.schedule if entry.copied_from is not None]
        return tuple(step for step in steps if self.values.get(step) == -math.inf)


class Lineage(NamedTuple):
    """Schedule of the weights of a trial, through all members that they were copied from.

    Attributes:
        root: Number of the trial whose initial weights and numbers the weights come from.
        schedule: Numbers that these weights were trained with, oldest first; `copied_from` is the trial that they were
            copied from at that step.
    """

    root: int
    schedule: Schedule


def entry_of(data: Mapping[str, Any]) -> ScheduleEntry:
    """Return the entry that `ScheduleEntry.to_json` serialized.

    Raises:
        StudyError: The data is no entry.
    """
    try:
        copied_from = data.get("copied_from")
        return ScheduleEntry(
            env_steps=int(data["env_steps"]),
            params={str(name): float(value) for name, value in data["params"].items()},
            copied_from=None if copied_from is None else int(copied_from),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StudyError(f"{data!r} is no entry of a schedule: {type(error).__name__}: {error}") from error


def lineage(number: int, schedules: Mapping[int, Schedule]) -> Lineage:
    """Return the schedule of the weights that a trial has at its end.

    Args:
        number: Number of the trial.
        schedules: Schedule of every trial, by number.

    Raises:
        StudyError: A trial of the lineage has no schedule.
    """
    found: list[ScheduleEntry] = []
    current, before = number, float("inf")
    while True:
        own = [each for each in schedules.get(current, ()) if each.env_steps < before]
        if not own:
            raise StudyError(f"the trial {current} has no schedule, so that the lineage of trial {number} is unknown.")
        copied = next((index for index in reversed(range(len(own))) if own[index].copied_from is not None), None)
        if copied is None:
            return Lineage(current, (*own, *found))
        found = [*own[copied:], *found]
        before, donor = own[copied].env_steps, own[copied].copied_from
        assert donor is not None
        current = donor


def scaled(schedule: Sequence[ScheduleEntry], env_steps: int, budget: int) -> Schedule:
    """Return a schedule that was recorded over `env_steps` for a run of `budget` environment steps.

    Every step is multiplied by the same factor. Of entries that fall on one step, the last one stays.
    """
    if env_steps == budget:
        return tuple(schedule)
    steps: dict[int, ScheduleEntry] = {}
    for each in schedule:
        at = round(each.env_steps * budget / env_steps)
        steps[at] = ScheduleEntry(env_steps=at, params=each.params, copied_from=each.copied_from)
    return tuple(steps.values())
