"""Forecast of a search whose trials are trained together: its work, what is left of it, and for how long.

Work is counted in environment steps over all seeds of all trials (in episodes, if the budget is in episodes). What is
to be done follows from the rules of the pruner (`studies.adapters.expected_pruning`) and contains the confirmation, so
that the share of the work that is done does not fall when the confirmation begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from finder.progress.running_trial import RunningTrial
    from studies.adapters.expected_pruning import Course
    from studies.spec.spec import StudySpec

LEAST_SECONDS = 2.0
"""Seconds of progress before a speed is meaningful."""

MOST_MARKS = 200
"""Times for which the work that was done is remembered."""

SAME_TIME = 0.1
"""Seconds within which trials that are trained together report their progress, one after another."""


class Forecast:
    """The work of a search.

    Args:
        spec: The study.
        n_places: Trials that run at the same time.
    """

    def __init__(self, spec: StudySpec, n_places: int) -> None:
        # Displays are imported by every command: Optuna is not.
        from studies.adapters.expected_pruning import expected_courses, run_steps
        from studies.judging.search_history import held_out_seeds, n_finalists
        from studies.spec.scheduler_names import pauses_trials

        self._spec = spec
        self._of_finalist = len(held_out_seeds(spec)) * spec.confirm_budget  # work of a confirmation
        self._n_seeds = len(spec.seeds)
        self._pauses = pauses_trials(spec.pruner)
        self._n_confirmed = n_finalists(spec)
        self._course: Course = ()
        self._mean = float(spec.budget)  # expected work of a trial, for one seed
        if spec.env_steps is not None:
            courses = expected_courses(spec, spec.n_trials, max(1, n_places))
            self._course = courses[0]
            self._mean = sum(map(run_steps, courses)) / spec.n_trials

    def of_confirmation(self, n_left: int | None) -> float:
        """Return the work of further trials of the confirmation.

        Args:
            n_left: Confirmations that are still to be started; None before the confirmation has begun.
        """
        n = self._n_confirmed if n_left is None else n_left
        return float(n * self._of_finalist)

    def of_search(self, running: Iterable[RunningTrial], n_waiting: int, n_paused: int, done: float) -> float:
        """Return the work that is left of the search.

        Args:
            running: Its running trials.
            n_waiting: Its trials that are still to be started.
            n_paused: Its paused trials.
            done: Its work so far.
        """
        trials = list(running)
        if self._pauses:  # what promoted trials will do is not known of each
            n = len(trials) + n_waiting + n_paused
            rest = sum(trial.work_left for trial in trials if trial.share > 0.5)
            return max(self._mean * self._n_seeds * n - done, rest) if n else 0.0
        return self._rest(trials) + n_waiting * self._mean * self._n_seeds

    def _rest(self, trials: list[RunningTrial]) -> float:
        """Return the work that is left of trials that run together, fewer of which reach later rungs."""
        from studies.adapters.expected_pruning import at_most, run_steps

        if not self._course:
            return sum(trial.work_left for trial in trials)
        reached = max((round(trial.share * trial.budget) for trial in trials), default=0)
        return float(run_steps(at_most(self._course, len(trials)), reached) * self._n_seeds)


class WorkSpeed:
    """The speed of work in the latter half of the time since it was seen first: updates are compiled in the former."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []  # times, with the work that was done then, oldest first
        self._last: tuple[float, float] | None = None
        self._began = 0.0

    def record(self, now: float, done: float) -> None:
        """Record the work that is done at a time."""
        self._last = (now, done)
        if not self._marks:
            self._began = now
        age, since = now - self._began, now - self._marks[-1][0] if self._marks else math.inf
        if since >= max(SAME_TIME, age / MOST_MARKS):
            self._marks.append((now, done))
        elif since < SAME_TIME:
            self._marks[-1] = (self._marks[-1][0], done)
        while len(self._marks) > 1 and self._marks[1][0] <= now - max(LEAST_SECONDS, age / 2):
            del self._marks[0]

    def restart(self) -> None:
        """Begin anew: processes start and compile again."""
        self._marks, self._last = [], None

    def seconds(self, left: float, now: float) -> float | None:
        """Return the seconds that work takes; None if the speed is not known yet."""
        if self._last is None:
            return None
        (at, last), (began, first) = self._last, self._marks[0]
        if at - began < LEAST_SECONDS or last <= first:
            return None
        return max(0.0, left * (at - began) / (last - first) - (now - at))
