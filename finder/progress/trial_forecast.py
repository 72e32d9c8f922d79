"""Forecast of a search whose trials run one by one: how long a trial takes, and how many are left."""

from __future__ import annotations

import heapq
import math
import statistics
from typing import TYPE_CHECKING

from finder.progress.running_trial import SHARE_TO_JUDGE, RunningTrial

if TYPE_CHECKING:
    from finder.progress.forecast import Standing
    from finder.trials.trial import Outcome
    from studies.spec.spec import StudySpec


class TrialForecast:
    """Estimates the progress of a search by the times of its trials. It has the methods of `Forecast`.

    Args:
        spec: The study; None before it is open. Defaults to None.
        n_places: Trials that run at the same time. Defaults to 1.
        confirms: Whether finalists have run already, in another process. Defaults to False.
    """

    def __init__(self, spec: StudySpec | None = None, n_places: int = 1, *, confirms: bool = False) -> None:
        self._n_places = max(1, n_places)
        self._durations: list[float] = []
        self._whole: list[float] = []  # seconds of complete trials of the search
        self._n_of_search: int | None = None  # trials of the search, once its first finalists run
        self._n_finalists = 0  # that are expected, until the confirmation has begun
        self._finalist = 1.0  # runs of a finalist, in those of a trial of the search
        if spec is not None:
            from studies.judging.search_history import n_finalists

            self._finalist = _runs_of_finalist(spec)
            self._n_finalists = 0 if confirms else n_finalists(spec)

    def share(self, standing: Standing) -> float:
        """Return the share of the work that is done, from 0 to 1."""
        done: float = standing.n_ended + sum(trial.share for trial in standing.running)
        whole: float = standing.n_own
        if self._n_of_search is None:
            whole += self._finalist * self._n_finalists
        else:
            done, whole = (self._n_of_search + self._finalist * (n - self._n_of_search) for n in (done, whole))
        return done / whole if whole else 1.0

    def seconds_left(self, standing: Standing, now: float) -> float | None:
        """Estimate the remaining seconds; None if there is too little progress.

        A running trial is assumed to continue at its speed without its start-up time, or to take the usual time; a
        trial that has taken longer continues at its mean speed. Each waiting trial starts when a running one ends.
        """
        running, n_waiting = standing.running, standing.n_waiting
        if running and all(trial.first is None for trial in running):
            return None
        remaining = [self._remaining_of(trial, now) for trial in running]
        known = [(trial, seconds) for trial, seconds in zip(running, remaining, strict=True) if seconds is not None]
        if not self._durations and not known:
            return None
        usual = statistics.fmean(self._durations or [now - trial.began + seconds for trial, seconds in known])
        guesses = [_estimate(trial, seconds, usual, now) for trial, seconds in zip(running, remaining, strict=True)]
        places = [guess for guess in guesses if guess is not None]
        if len(places) < len(guesses):
            return None
        if not places and not n_waiting:
            return None  # between the search and the confirmation
        places += [0.0] * min(n_waiting, self._n_places - len(places))
        heapq.heapify(places)
        for _ in range(n_waiting):
            heapq.heapreplace(places, places[0] + usual)
        n_rounds = 0 if self._n_of_search is not None else math.ceil(self._n_finalists / self._n_places)
        return max(places) + n_rounds * self._finalist * statistics.fmean(self._whole or [usual])

    def progressed(self, trial: RunningTrial, now: float) -> None:
        """Do nothing: trials are counted when they end."""

    def ended(self, trial: RunningTrial, outcome: Outcome, now: float) -> None:
        """Record that a trial has ended, or was paused."""
        if outcome.state == "interrupted" or trial.steps_before:
            return
        self._durations.append(now - trial.began)
        if outcome.state == "complete" and trial.confirms is None:
            self._whole.append(now - trial.began)

    def confirmation_begins(self, spec: StudySpec | None, n_ended: int) -> None:
        """Record that finalists begin to run, the first or later ones.

        Args:
            spec: The study, the seeds and steps of whose confirmation may have changed; None if they have not.
            n_ended: Trials of this process that have ended.
        """
        if spec is not None:
            self._finalist = _runs_of_finalist(spec)
        if self._n_of_search is None:
            self._n_of_search = n_ended
            known = self._whole or self._durations
            self._durations = [self._finalist * statistics.fmean(known)] if known else []

    def _remaining_of(self, trial: RunningTrial, now: float) -> float | None:
        """Return the remaining seconds by the speed of the trial, or by its total time if no trial has ended."""
        seconds = trial.seconds_left(now)
        if seconds is None and not self._durations and trial.share > SHARE_TO_JUDGE:
            return (now - trial.began) * (1 - trial.share) / trial.share
        return seconds


def _runs_of_finalist(spec: StudySpec) -> float:
    from studies.judging.search_history import held_out_seeds

    return len(held_out_seeds(spec)) * spec.confirm_budget / (len(spec.seeds) * spec.budget)


def _estimate(trial: RunningTrial, seconds: float | None, usual: float, now: float) -> float | None:
    """Estimate the remaining seconds of a running trial; None if it exceeds the usual time without progress.

    Args:
        trial: The trial.
        seconds: Remaining seconds by its speed, or None.
        usual: Usual seconds of a trial.
        now: The present time.
    """
    lasted = now - trial.began
    left = usual - lasted if seconds is None else seconds
    if left > 0 or trial.share >= 1:
        return max(0.0, left)
    return lasted * (1 - trial.share) / trial.share if trial.share > 0 else None
