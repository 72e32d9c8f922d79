"""Meters of a budget: what a search has spent of it, and what its trials will cost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from finder.budgets.cost import Costs
from finder.trials.trial import Work
from studies.adapters.expected_pruning import Course, Stage, run_steps

LATE = 1.05
"""Multiple of the minutes after which running trials are stopped."""

_SURE = 0.8
"""Share of the remaining minutes that more seeds than planned may take: a confirmation that is stopped is lost."""

_PRIOR_SECONDS = 2.0
"""Seconds of the estimate that count like measured ones."""

_FARTHEST = 10.0
"""Largest factor between the estimated and the measured time."""


class Meter(ABC):
    """Base class for meters.

    Attributes:
        limit: The budget, in the unit of the meter.
        hard_limit: What is spent when running trials are stopped.
        adds_up: Whether trials that run at the same time cost as much as one after another.
        sure_share: Share of the remaining budget that is sure to suffice for what is estimated to cost it.
    """

    adds_up = False
    sure_share = 1.0

    limit: float
    hard_limit: float

    @abstractmethod
    def spent(self) -> float:
        """Return what the search has spent, earlier runs of the study included."""

    @abstractmethod
    def batch(self, course: Course, n_seeds: int, *, starts: bool) -> float:
        """Return the cost of a batch of trials that begins now.

        Args:
            course: How many trials train up to which environment steps.
            n_seeds: Seeds of each trial.
            starts: Whether processes are started and agents compiled for it.
        """

    def compilation(self, n_trials: int) -> float:
        """Return the cost of compiling the structures of further trials. Defaults to none."""
        return 0.0

    @abstractmethod
    def confirmation(self, env_steps: int, n_trials: int, n_seeds: int, relative: Sequence[float] = ()) -> float:
        """Return the cost of a confirmation that begins now.

        Args:
            env_steps: Environment steps of each run.
            n_trials: The finalists.
            n_seeds: Further seeds of each.
            relative: Time of a training step of each, as a multiple of the mean of all trials. Defaults to none: 1.
        """

    def relative_time(self, work: Work) -> float | None:
        """Return the time of the training of a trial as a multiple of its estimate; None if that is unknown.

        Args:
            work: The training.
        """
        return None

    def trained(self, work: Work, n_beside: int) -> None:
        """Record the training of a trial that had a process of its own. Defaults to nothing.

        Args:
            work: The training.
            n_beside: Other trials that were trained at its end.
        """
        return

    @abstractmethod
    def rest(self, course: Course, n_seeds: int, reached: int) -> float:
        """Return the cost of the rest of a batch, whose runs have made so many environment steps."""

    @abstractmethod
    def advanced(self, first: int, last: int, n_trials: int, n_seeds: int, counted: int = 0) -> None:
        """Record that the runs of running trials went from one environment step to another since the last call.

        Args:
            first: Environment steps at the last call.
            last: Environment steps now.
            n_trials: Running trials.
            n_seeds: Seeds of each.
            counted: Environment steps of these trials, for one seed each, that were recorded before they began.
                Defaults to 0.
        """

    @abstractmethod
    def ended(self, env_steps: int, n_seeds: int) -> None:
        """Record that a trial has ended, with its environment steps for each seed."""

    def count(self, env_steps: int) -> None:
        """Set the environment steps of all runs but for what those of this process make now. Defaults to nothing."""
        return

    def waiting(self, seconds: float) -> float:
        """Return the cost of waiting. Defaults to none."""
        return 0.0


class TimeMeter(Meter):
    """Meter of seconds. Costs are corrected by the speed of the search so far.

    Args:
        seconds: The budget.
        costs: The estimated costs.
        before: Seconds that earlier runs of the study have taken. Defaults to 0.
        began: Time at which the search began. Defaults to now.
        clock: Returns the time in seconds.
    """

    sure_share = _SURE

    def __init__(
        self,
        seconds: float,
        costs: Costs,
        *,
        before: float = 0.0,
        began: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit, self.hard_limit = seconds, LATE * seconds
        self._costs, self._before, self._clock = costs, before, clock
        self._began = clock() if began is None else began
        self._last: float | None = None
        self._estimated = self._taken = _PRIOR_SECONDS

    @property
    def correction(self) -> float:
        """Time of the search so far, as a multiple of its estimate."""
        return min(max(self._taken / self._estimated, 1 / _FARTHEST), _FARTHEST)

    def spent(self) -> float:
        return self._before + self._clock() - self._began

    def batch(self, course: Course, n_seeds: int, *, starts: bool) -> float:
        start = self._costs.compile_seconds + self._costs.process_seconds if starts else 0.0
        if not starts and self._costs.compiles_for_each_trial:
            start = self._costs.compile_seconds
        return start + self.correction * self._costs.batch_seconds(course, n_seeds)

    def compilation(self, n_trials: int) -> float:
        # Where each trial has a process of its own, `batch` has counted it.
        return 0.0 if self._costs.compiles_for_each_trial else self._costs.later_start_seconds(n_trials)

    def confirmation(self, env_steps: int, n_trials: int, n_seeds: int, relative: Sequence[float] = ()) -> float:
        start = self._costs.later_start_seconds(n_trials)
        return start + self.correction * self._costs.confirmation_seconds(env_steps, n_trials, n_seeds, relative)

    def relative_time(self, work: Work) -> float | None:
        speeds = self._costs.speeds.values()
        expected = sum(
            work.steps * speed.shared_seconds + work.steps_of_all * speed.run_seconds for speed in speeds
        ) / len(speeds)
        return work.seconds / expected if expected > 0 else None

    def rest(self, course: Course, n_seeds: int, reached: int) -> float:
        return self.correction * self._costs.batch_seconds(course, n_seeds, reached)

    def trained(self, work: Work, n_beside: int) -> None:
        if len(self._costs.speeds) > 1:
            return  # agents differ in speed, and a batch lasts as long as the slowest one
        if relative := self.relative_time(work):
            self._taken += work.seconds
            self._estimated += work.seconds / relative * self._costs.slowed_by_others(n_beside + 1)

    def advanced(self, first: int, last: int, n_trials: int, n_seeds: int, counted: int = 0) -> None:
        now = self._clock()
        if self._last is not None and first:  # the first part of the runs contains the compilation
            self._taken += now - self._last
            self._estimated += self._costs.batch_seconds((Stage(last, n_trials),), n_seeds, first)
        self._last = now

    def ended(self, env_steps: int, n_seeds: int) -> None:
        """Record nothing: time does not depend on trials."""

    def waiting(self, seconds: float) -> float:
        return seconds


class StepMeter(Meter):
    """Meter of environment steps over all runs.

    Args:
        env_steps: The budget.
        before: Environment steps of all ended trials of the study. Defaults to 0.
    """

    adds_up = True

    def __init__(self, env_steps: int, before: int = 0) -> None:
        self.limit = self.hard_limit = float(env_steps)
        self._ended = before
        self._running = 0

    def spent(self) -> float:
        return self._ended + self._running

    def batch(self, course: Course, n_seeds: int, *, starts: bool) -> float:
        return n_seeds * run_steps(course)

    def confirmation(self, env_steps: int, n_trials: int, n_seeds: int, relative: Sequence[float] = ()) -> float:
        return n_seeds * n_trials * env_steps

    def rest(self, course: Course, n_seeds: int, reached: int) -> float:
        return n_seeds * run_steps(course, reached)

    def advanced(self, first: int, last: int, n_trials: int, n_seeds: int, counted: int = 0) -> None:
        self._running = (last * n_trials - counted) * n_seeds

    def ended(self, env_steps: int, n_seeds: int) -> None:
        self._ended += env_steps * n_seeds
        self._running = max(0, self._running - env_steps * n_seeds)

    def count(self, env_steps: int) -> None:
        self._ended = env_steps


class RelativeTimes:
    """Times of a training step of trials, as multiples of the mean of all trials that ended here."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, int]] = {}  # trial -> relative time, and environment steps of its seeds

    def add(self, number: int, relative: float, env_steps: int) -> None:
        """Record the time of a trial as a multiple of its estimate, and the environment steps of all of its seeds."""
        self._known[number] = (relative, env_steps)

    def of(self, numbers: Sequence[int | None]) -> list[float]:
        """Return the times of trials; 1 for those that did not end here or are not known yet, and none if none is."""
        n_steps = sum(steps for _, steps in self._known.values())
        if not n_steps:
            return []
        mean = sum(relative * steps for relative, steps in self._known.values()) / n_steps
        times = {number: relative / mean for number, (relative, _) in self._known.items()}
        return [1.0 if number is None else times.get(number, 1.0) for number in numbers]
