"""Expected pruning: how many trials a pruner would let continue, from its own rules and values without noise."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from studies.adapters.pruners import make_pruner
from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.schedulers.scheduler import Action
from studies.schedulers.sequential_test import SequentialTest
from studies.schedulers.trial_view import TrialView, ViewState
from studies.spec.scheduler_names import RACES, canonical_pruner_name

if TYPE_CHECKING:
    from studies.schedulers.scheduler import Scheduler
    from studies.spaces.spaces import Json
    from studies.spec.spec import StudySpec

MOST_SIMULATED = 200
"""Trials that are simulated; the others are assumed to be like them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the runs of a batch of trials.

    Attributes:
        until: Environment steps of each run at its end.
        n_trials: Trials that train up to there.
    """

    until: int
    n_trials: int


Course = tuple[Stage, ...]
"""The stages of a batch of trials that run at the same time, in order; the last one ends with the budget."""


def expected_courses(spec: StudySpec, n_trials: int, at_once: int | None = None) -> list[Course]:
    """Return how many trials are expected to reach each report mark, for each batch of trials.

    The best trial stays the best throughout, and the baseline comes to its end. Paused trials that would be promoted if
    there were no further ones are expected to continue in their batch. Pruners whose decisions depend on the shape of
    the curves (`patient`, `threshold`, `sequential-test`) are assumed to prune nothing.

    Args:
        spec: Spec of the study, with a budget in environment steps.
        n_trials: Trials of the search, at least 1.
        at_once: Trials of a batch. Defaults to `None`: all.
    """
    size = min(n_trials, MOST_SIMULATED, at_once or n_trials)
    # Beyond what is simulated, batches are like the last one, which is a whole one.
    n = n_trials if n_trials <= MOST_SIMULATED else MOST_SIMULATED - MOST_SIMULATED % size
    sizes = [min(size, n - first) for first in range(0, n, size)]
    courses = _Simulation(spec, _scheduler_of(spec), n).courses(sizes)
    further = [min(size, n_trials - first) for first in range(n, n_trials, size)]
    return courses + [at_most(courses[-1], n_batch) for n_batch in further]


def kept_trials(course: Course) -> list[Stage]:
    """Return the stages after which fewer trials continue, in order: the rungs at which trials are pruned."""
    return [
        Stage(before.until, after.n_trials)
        for before, after in itertools.pairwise(course)
        if after.n_trials < before.n_trials
    ]


def at_most(course: Course, n_trials: int) -> Course:
    """Return a course in which no more than so many trials are left."""
    return tuple(Stage(stage.until, min(stage.n_trials, n_trials)) for stage in course)


def run_steps(course: Course, reached: int = 0) -> int:
    """Return the environment steps of all trials of a batch, for one seed each.

    Args:
        course: The course.
        reached: Environment steps that each run has made, which are left out. Defaults to 0.
    """
    steps, before = 0, reached
    for stage in course:
        steps += max(0, stage.until - before) * stage.n_trials
        before = max(before, stage.until)
    return steps


class _Simulation:
    """A search whose trials have constant values: random ranks, the same at every mark."""

    def __init__(self, spec: StudySpec, scheduler: Scheduler | None, n_trials: int) -> None:
        self._marks, self._scheduler = spec.report_marks, scheduler
        self._never_pruned = {number for number, row in enumerate((*spec.first, *spec.plan())) if row == spec.baseline}
        values = list(range(n_trials))
        random.Random(0).shuffle(values)
        self._values = [(float(value),) for value in values]
        self._views = [
            TrialView(number=number, params=_raced_per(spec, number), state="waiting", values={})
            for number in range(n_trials)
        ]

    def courses(self, sizes: Sequence[int]) -> list[Course]:
        found, first = [], 0
        for size in sizes:
            found.append(self._course(list(range(first, first + size))))
            first += size
        return found

    def _course(self, numbers: list[int]) -> Course:
        stages: list[Stage] = []
        for mark in self._marks:
            stages.append(Stage(mark, len(numbers)))
            for number in numbers:
                view = self._views[number]
                values = {**view.values, mark: self._values[number]}
                self._views[number] = replace(view, state="running", values=values)
            if self._scheduler is not None and mark != self._marks[-1]:
                numbers = self._judged(self._scheduler, mark, numbers)
        self._end(numbers, "complete")
        return tuple(stages)

    def _judged(self, scheduler: Scheduler, mark: int, numbers: list[int]) -> list[int]:
        """Return the trials that continue after a mark."""
        decided = scheduler.decisions([self._views[number] for number in numbers], self._views)
        out = {number for number, action in decided.items() if not action.continues} - self._never_pruned
        if any(action == Action.PAUSE for action in decided.values()):  # some of the paused ones are promoted later
            self._end(out, "paused")
            out -= set(scheduler.promotable(self._views, is_last=True))
            for number in set(numbers) - out:
                self._views[number] = replace(self._views[number], promoted_from=mark)
            self._end(set(numbers) - out, "running")
        self._end(out, "pruned")
        return [number for number in numbers if number not in out]

    def _end(self, numbers: Iterable[int], state: ViewState) -> None:
        for number in numbers:
            self._views[number] = replace(self._views[number], state=state)


def _scheduler_of(spec: StudySpec) -> Scheduler | None:
    """Return the scheduler of a study; None if it prunes nothing, or nothing can be said about it."""
    pruner = make_pruner(spec.pruner, spec.pruner_kwargs, spec)
    if not isinstance(pruner, SchedulerPruner) or isinstance(pruner.scheduler, SequentialTest):
        return None
    return pruner.scheduler


def _raced_per(spec: StudySpec, number: int) -> dict[str, Json]:
    """Return the parameter per which trials race, as a planned trial has it; nothing else is known before."""
    per = spec.pruner_kwargs.get("per") if canonical_pruner_name(spec.pruner) in RACES else None
    plan = spec.plan()
    return {per: plan[number][per]} if isinstance(per, str) and number < len(plan) and per in plan[number] else {}
