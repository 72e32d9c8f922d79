"""Expected pruning: how many trials a pruner would let continue, from its own rules and values without noise."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from studies.scheduling.equal_steps import EqualStepsPruner
from studies.scheduling.pruners import make_pruner
from studies.scheduling.rungs import RungPruner, SequentialTestPruner
from studies.spec.scheduler_names import RACES, canonical_pruner_name
from studies.spec.spaces import encode

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner

    from studies.spec.spec import StudySpec

MOST_SIMULATED = 200
"""Trials that are simulated; the others are assumed to be like them."""

_START_UP = 4
"""Other trials that the median rule needs by default."""


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

    The best trial stays the best throughout. Pruners whose decisions depend on the shape of the curves (`patient`,
    `threshold`, `sequential-test`) are assumed to prune nothing.

    Args:
        spec: Spec of the study, with a budget in environment steps.
        n_trials: Trials of the search, at least 1.
        at_once: Trials of a batch. Defaults to `None`: all.
    """
    n = min(n_trials, MOST_SIMULATED)
    size = min(n, at_once or n)
    sizes = [min(size, n - first) for first in range(0, n, size)]
    pruner = make_pruner(spec.pruner, spec.pruner_kwargs, spec)
    courses = _Simulation(spec, pruner, n).courses(sizes)
    n_further = math.ceil((n_trials - n) / size)
    return courses + [courses[-1]] * n_further


def kept_trials(course: Course) -> list[Stage]:
    """Return the stages after which fewer trials continue, in order: the rungs at which trials are pruned."""
    return [
        Stage(before.until, after.n_trials)
        for before, after in itertools.pairwise(course)
        if after.n_trials < before.n_trials
    ]


def run_steps(course: Course) -> int:
    """Return the environment steps of all trials of a batch, for one seed each."""
    return sum(
        (stage.until - before) * stage.n_trials
        for before, stage in zip((0, *(stage.until for stage in course)), course, strict=False)
    )


class _Simulation:
    """A search whose trials have constant values: random ranks, the same at every mark."""

    def __init__(self, spec: StudySpec, pruner: BasePruner, n_trials: int) -> None:
        self._spec, self._pruner = spec, pruner
        values = list(range(n_trials))
        random.Random(0).shuffle(values)
        self._values = values
        self._trials = [_trial(spec, number) for number in range(n_trials)]
        self._rungs: dict[int, dict[int, tuple[float, ...]]] = {}

    def courses(self, sizes: Sequence[int]) -> list[Course]:
        found, first = [], 0
        for size in sizes:
            found.append(self._course(list(range(first, first + size))))
            first += size
        return found

    def _course(self, numbers: list[int]) -> Course:
        stages: list[Stage] = []
        started, judged = [*numbers], None
        marks = self._spec.report_marks
        for mark in marks:
            stages.append(Stage(mark, len(numbers)))
            if mark == marks[-1]:
                break
            if isinstance(self._pruner, RungPruner) and not isinstance(self._pruner, SequentialTestPruner):
                rung = self._pruner.rung_of(mark)
                if rung is not None and rung != judged:
                    judged, numbers = rung, self._survivors(self._pruner, rung, numbers)
            elif isinstance(self._pruner, EqualStepsPruner) and self._prunes_behind(mark):
                numbers = self._not_behind(numbers, max(started) + 1)
        for number in numbers:
            self._trials[number].state = TrialState.COMPLETE
        return tuple(stages)

    def _survivors(self, pruner: RungPruner, rung: int, numbers: list[int]) -> list[int]:
        at_rung = self._rungs.setdefault(rung, {})
        at_rung |= {number: (float(self._values[number]),) for number in numbers}
        known = [trial for trial in self._trials if trial.state != TrialState.WAITING or trial.number in at_rung]
        kept = pruner.survivors(rung, at_rung, known)
        for number in set(numbers) - kept:
            self._trials[number].state = TrialState.PRUNED
        return [number for number in numbers if number in kept]

    def _prunes_behind(self, mark: int) -> bool:
        warmup = self._spec.pruner_kwargs.get("n_warmup_steps", (self._spec.env_steps or 0) // 2)
        return isinstance(warmup, int | float) and mark >= warmup

    def _not_behind(self, numbers: list[int], n_seen: int) -> list[int]:
        kwargs = self._spec.pruner_kwargs
        median = canonical_pruner_name(self._spec.pruner) == "median"
        percentile = 50.0 if median else kwargs.get("percentile", 25.0)
        needed = kwargs.get("n_startup_trials", _START_UP)
        assert isinstance(percentile, int | float)
        assert isinstance(needed, int | float)
        seen = self._values[:n_seen]
        if n_seen - 1 < max(1, needed):
            return numbers
        kept = []
        for number in numbers:
            others = [value for other, value in enumerate(seen) if other != number]
            if self._values[number] >= np.percentile(others, 100 - percentile):
                kept.append(number)
        return kept


def _trial(spec: StudySpec, number: int) -> FrozenTrial:
    """Return a waiting trial that has only the parameter per which trials race."""
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    per = spec.pruner_kwargs.get("per") if canonical_pruner_name(spec.pruner) in RACES else None
    plan = spec.plan()
    if isinstance(per, str) and number < len(plan) and per in plan[number]:
        params = {per: encode(plan[number][per])}
        choices = sorted({encode(row[per]) for row in plan if per in row}, key=str)
        distributions = {per: CategoricalDistribution(choices)}
    trial = create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
    trial.number, trial.state = number, TrialState.WAITING
    return trial
