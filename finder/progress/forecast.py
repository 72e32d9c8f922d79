"""Forecast of a search whose trials are trained together: its work, what is left of it, and for how long.

Work is counted in environment steps over all seeds of all trials (in episodes, if the budget is in episodes). What is
to be done follows from the rules of the scheduler (`studies.adapters.expected_pruning`) and contains the confirmation,
so that the share of the work that is done does not fall when the confirmation begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from finder.progress.running_trial import RunningTrial
    from finder.trials.trial import Outcome
    from studies.adapters.expected_pruning import Course
    from studies.spec.spec import StudySpec

LEAST_SECONDS = 2.0
"""Seconds of progress before a speed is meaningful."""

MOST_MARKS = 200
"""Times for which the work that was done is remembered."""

SAME_TIME = 0.1
"""Seconds within which trials that are trained together report their progress, one after another."""


@dataclass(frozen=True)
class Standing:
    """How far a search is.

    Attributes:
        running: Its running trials.
        n_ended: Trials of this process that have ended.
        n_own: Trials that this process has run or is expected to run: all that had not ended before.
        n_paused: Paused trials.
    """

    running: Sequence[RunningTrial]
    n_ended: int
    n_own: int
    n_paused: int

    @property
    def n_waiting(self) -> int:
        """Trials of this phase that are still to be started."""
        return max(0, self.n_own - self.n_ended - self.n_paused - len(self.running))


class Forecast:
    """Estimates the progress of a search by its work.

    Args:
        spec: The study.
        n_places: Trials that run at the same time.
    """

    def __init__(self, spec: StudySpec, n_places: int) -> None:
        self._n_places = n_places
        self._confirms = False  # whether the confirmation has begun
        self._has_ended = False  # a trial, since the search or its confirmation has begun
        self._work: dict[int, float] = {}  # trial -> its work so far, also before its pauses
        self._done = 0.0  # the sum
        self._speed = WorkSpeed()
        self._expect(spec)

    def share(self, standing: Standing) -> float:
        """Return the share of the work that is done, from 0 to 1."""
        left = self._left(standing)
        return self._done / (self._done + left) if left > 0 else 1.0

    def seconds_left(self, standing: Standing, now: float) -> float | None:
        """Estimate the remaining seconds; None if there is too little progress."""
        left = self._left(standing)
        return self._speed.seconds(left, now) if left > 0 else None

    def progressed(self, trial: RunningTrial, now: float) -> None:
        """Record new episodes of a trial."""
        if trial.first is None and not self._has_ended:
            self._speed.restart()  # until now, its network may have been compiled
        self._count(trial)
        self._speed.record(now, self._done, trial.number)

    def ended(self, trial: RunningTrial, outcome: Outcome, now: float) -> None:
        """Record that a trial has ended, or was paused."""
        self._has_ended = True
        self._count(trial, float(outcome.env_steps * len(trial.seeds)) if trial.by_steps else 0.0)

    def confirmation_begins(self, spec: StudySpec | None, n_ended: int) -> None:
        """Record that finalists begin to run.

        Args:
            spec: The study, the seeds and steps of whose confirmation may have changed; None if they have not.
            n_ended: Trials of this process that have ended.
        """
        if spec is not None:
            self._expect(spec)
        self._confirms = True
        self._speed.restart()
        self._has_ended = False

    def _count(self, trial: RunningTrial, least: float = 0.0) -> None:
        """Count the work of a trial; a promoted one repeats what it did before its pause."""
        before = self._work.get(trial.number, 0.0)
        self._work[trial.number] = max(before, trial.work, least)
        self._done += self._work[trial.number] - before

    def _expect(self, spec: StudySpec) -> None:
        # Displays are imported by every command: Optuna is not.
        from studies.adapters.expected_pruning import expected_courses, run_steps
        from studies.judging.search_history import held_out_seeds, n_finalists
        from studies.spec.scheduler_names import pauses_trials

        self._of_finalist = len(held_out_seeds(spec)) * spec.confirm_budget  # work of a confirmation
        self._n_seeds = len(spec.seeds)
        self._pauses = pauses_trials(spec.pruner)
        self._n_confirmed = n_finalists(spec)
        self._course: Course = ()
        self._mean = float(spec.budget)  # expected work of a trial, for one seed
        if spec.env_steps is not None:
            courses = expected_courses(spec, spec.n_trials, max(1, self._n_places))
            self._course = courses[0]
            self._mean = sum(map(run_steps, courses)) / spec.n_trials

    def _left(self, standing: Standing) -> float:
        """Return the work that is left, the confirmation included."""
        if self._confirms:
            return sum(trial.work_left for trial in standing.running) + standing.n_waiting * self._of_finalist
        return self._left_of_search(standing) + self._n_confirmed * self._of_finalist

    def _left_of_search(self, standing: Standing) -> float:
        if self._pauses:  # what promoted trials will do is not known of each
            n = len(standing.running) + standing.n_waiting + standing.n_paused
            rest = sum(trial.work_left for trial in standing.running if trial.share > 0.5)
            return max(self._mean * self._n_seeds * n - self._done, rest) if n else 0.0
        return self._rest(standing.running) + standing.n_waiting * self._mean * self._n_seeds

    def _rest(self, trials: Sequence[RunningTrial]) -> float:
        """Return the work that is left of trials that run together, fewer of which reach later rungs."""
        from studies.adapters.expected_pruning import at_most, run_steps

        if not self._course:
            return sum(trial.work_left for trial in trials)
        reached = max((round(trial.share * trial.budget) for trial in trials), default=0)
        return float(run_steps(at_most(self._course, len(trials)), reached) * self._n_seeds)


class WorkSpeed:
    """The speed of work in the latter half of the time since it was seen first: updates are compiled in the former.

    Trials that are trained together report one after another. Until the last of them has, the work of their step is
    known in part, and the speed is that up to the step before.
    """

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []  # times, with the work that was done then, oldest first
        self._last: tuple[float, float] | None = None
        self._before: tuple[float, float] | None = None  # the last mark of the reports before the present ones
        self._reports_began = self._began = 0.0
        self._reporting: set[int] = set()  # trials of the present reports
        self._reported: set[int] = set()  # those of the reports before

    def record(self, now: float, done: float, trial: int = 0) -> None:
        """Record the work that is done at a time, as a trial reports."""
        if self._last is None or now - self._reports_began >= SAME_TIME:
            self._before, self._reported, self._reporting = self._last, self._reporting, set()
            self._reports_began = now
        self._reporting.add(trial)
        self._last = (now, done)
        if not self._marks:
            self._began = now
        age, since = now - self._began, now - self._marks[-1][0] if self._marks else math.inf
        if since >= max(SAME_TIME, age / MOST_MARKS):
            self._marks.append((now, done))
        elif since < SAME_TIME:
            self._marks[-1] = (self._marks[-1][0], done)
        newest = self._newest(now)
        known_at = now if newest is None else newest[0]
        first = min(now - max(LEAST_SECONDS, age / 2), known_at - LEAST_SECONDS)
        while len(self._marks) > 1 and self._marks[1][0] <= first:
            del self._marks[0]

    def _newest(self, now: float) -> tuple[float, float] | None:
        """Return the newest time for which the work of all trials that report together is known, and this work."""
        is_whole = self._reported <= self._reporting or now - self._reports_began >= SAME_TIME
        return self._last if is_whole else self._before

    def restart(self) -> None:
        """Begin anew: processes start and compile again."""
        self._marks, self._last, self._before = [], None, None
        self._reporting, self._reported = set(), set()

    def seconds(self, left: float, now: float) -> float | None:
        """Return the seconds that work takes; None if the speed is not known yet."""
        if (newest := self._newest(now)) is None:
            return None
        (at, last), (began, first) = newest, self._marks[0]
        if at - began < LEAST_SECONDS or last <= first:
            return None
        return max(0.0, left * (at - began) / (last - first) - (now - at))
