"""The state of a running search as numbers; `finder.progress.search_progress` displays them."""

from __future__ import annotations

import heapq
import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from studies.words import the_best

if TYPE_CHECKING:
    from finder.executors import Executor
    from finder.trials.trial import Outcome, TrialSpec
    from studies.database.records import EpisodeRecord
    from studies.study.study import OpenStudy

_RECENT = 20
"""Number of episodes of each seed in the latest mean."""

_SHARE_TO_JUDGE = 0.05
"""Share of the budget that a trial has to use before its speed is meaningful."""


_BEFORE_STEPS = ("starting", "compiling")
"""Phases that end with the first episodes."""


@dataclass
class RunningTrial:
    """A running trial.

    Attributes:
        number: Number of the trial.
        params: Parameters of the trial.
        seeds: Seeds of the trial.
        budget: Budget of each seed, in environment steps or episodes.
        by_steps: Whether the budget is in environment steps.
        env_steps: Seed -> environment steps so far.
        episodes: Seed -> episodes so far.
        recent: Returns (or losses) of the last episodes.
        began: Time of its start.
        confirms: Number of the trial that is repeated on further seeds, or None.
        first: Time of its first episodes, and its share of the budget then.
        last: Time of its newest episodes, and its share of the budget then.
    """

    number: int
    params: Mapping[str, Any]
    seeds: tuple[int, ...]
    budget: int
    by_steps: bool
    recent: deque[float]
    began: float
    confirms: int | None = None
    first: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    env_steps: dict[int, int] = field(default_factory=dict)
    episodes: dict[int, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Used share of the budget, from 0 to 1."""
        used = self.env_steps if self.by_steps else self.episodes
        return min(1.0, sum(used.values()) / (self.budget * len(self.seeds)))

    def record(self, now: float) -> None:
        """Record the progress at a time."""
        self.last = (now, self.share)
        self.first = self.first or self.last

    def seconds_left(self, now: float) -> float | None:
        """Estimate of the remaining seconds from the speed since the first episodes; None before that."""
        if self.first is None or self.last is None:
            return None
        (first_at, first), (last_at, last) = self.first, self.last
        if last - first < _SHARE_TO_JUDGE:
            return None
        return max(0.0, (1 - last) * (last_at - first_at) / (last - first) - (now - last_at))

    @property
    def mean_steps(self) -> int:
        """Mean environment steps over the seeds."""
        return round(sum(self.env_steps.values()) / len(self.seeds))

    @property
    def latest(self) -> float | None:
        """Mean over the last episodes, None without episodes."""
        recent = list(self.recent)  # a copy: the display reads while the search writes
        return statistics.fmean(recent) if recent else None


@dataclass(frozen=True)
class Best:
    """The best complete trial so far."""

    number: int
    params: Mapping[str, Any]
    value: float
    spread: float


class Tracker:
    """Tracks the state of a search. An `Observer` without a display.

    Args:
        clock: Returns the time in seconds.

    Attributes:
        study: The study, once it is open.
        states: Number of trials of this process by their state after they ran; a promoted trial is in none.
        running: Running trials by number.
        best: The best complete trial so far, including earlier processes.
        n_before: Number of trials that had ended before, or were paused.
        n_again: Number of failed trials that are retried.
        n_total: Number of trials of the complete study.
        n_places: Approximate number of trials that run at the same time.
        n_elsewhere: Number of running trials of other processes.
        phase: The phase before, between and after trials; empty during the search.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.study: OpenStudy | None = None
        self.states: Counter[str] = Counter()
        self.running: dict[int, RunningTrial] = {}
        self._paused: set[int] = set()  # paused by this process
        self.best: Best | None = None
        self.n_before = 0
        self.n_again = 0
        self.n_total = 0
        self._clock = clock
        self._began = clock()
        self.n_places = 1
        self.n_elsewhere = 0
        self.phase = "starting"
        self._finished_steps = 0
        self._durations: list[float] = []

    # State --------------------------------------------------------------------------------------

    @property
    def n_done(self) -> int:
        """Number of trials of this process that have ended or are paused."""
        states = dict(self.states)  # a copy: the display reads while the search writes
        return sum(count for state, count in states.items() if state != "interrupted")

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the search."""
        return self._clock() - self._began

    @property
    def share(self) -> float:
        """Share of the work of this process that is done, from 0 to 1."""
        left = self.n_total - self.n_before
        return (self.n_done + sum(trial.share for trial in list(self.running.values()))) / left if left else 1.0

    @property
    def steps_per_second(self) -> float:
        """Environment steps a second over all seeds of all trials."""
        steps = self._finished_steps + sum(sum(trial.env_steps.values()) for trial in list(self.running.values()))
        return steps / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the remaining seconds; None if there is too little progress.

        A running trial is assumed to continue at its speed without its start-up time, or to take the usual time; a
        trial that has taken longer continues at its mean speed. Each waiting trial starts when a running one ends.
        """
        now = self._clock()
        running = list(self.running.values())
        if running and all(trial.first is None for trial in running):
            return None
        left = [self._remaining_of(trial, now) for trial in running]
        known = [(trial, seconds) for trial, seconds in zip(running, left, strict=True) if seconds is not None]
        if not self._durations and not known:
            return None
        usual = statistics.fmean(self._durations or [now - trial.began + seconds for trial, seconds in known])
        guesses = [_estimate(trial, seconds, usual, now) for trial, seconds in zip(running, left, strict=True)]
        places = [guess for guess in guesses if guess is not None]
        if len(places) < len(guesses):
            return None
        n_waiting = max(0, self.n_total - self.n_before - self.n_done - len(running))
        if not places and not n_waiting:
            return None  # between the search and the confirmation
        places += [0.0] * min(n_waiting, max(1, self.n_places) - len(places))
        heapq.heapify(places)
        for _ in range(n_waiting):
            heapq.heapreplace(places, places[0] + usual)
        return max(places)

    # Events --------------------------------------------------------------------------------------------

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        from studies.analysis.recommendation import best
        from studies.analysis.status import study_status
        from studies.judging.missing_pick import why_no_pick

        self.study = study
        self.n_places = executor.trials_at_once(len(study.spec.seeds))
        before = study_status(study)
        self.n_again = before.n_again
        self.n_before = before.n_ended - before.n_again + before.n_paused
        self.n_total = self.n_before + n_left
        if not why_no_pick(study):
            pick = best(study)
            self.best = Best(pick.trial, pick.params, pick.value, pick.spread)
        self._began = self._clock()

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.n_total += len(rows)

    def confirmation_begins(self, n_finalists: int) -> None:
        self.n_total += n_finalists
        self.phase = f"confirming {the_best(n_finalists)}"

    def others_run(self, n_trials: int) -> None:
        self.n_elsewhere = n_trials
        self.phase = ""
        self._count_elsewhere()

    def _count_elsewhere(self) -> None:
        """Count the trials of other processes."""
        from studies.analysis.status import status_of

        if self.study is not None and self.study.storage.shared:
            now = status_of(self.study.spec, self.study.trials())
            self.n_before, self.n_total = max(0, now.n_ended + now.n_paused - self.n_done), now.n_total

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        self.n_elsewhere = 0
        if trial.promoted_from is not None:
            self._promoted(trial.number)
        self.running[trial.number] = RunningTrial(
            number=trial.number,
            params=self.searched(params),
            seeds=trial.seeds,
            budget=trial.env_steps or trial.episodes or 1,
            by_steps=trial.env_steps is not None,
            recent=deque(maxlen=_RECENT * len(trial.seeds)),
            began=self._clock(),
            confirms=trial.confirms,
        )

    def _promoted(self, number: int) -> None:
        """Count a trial that was paused, here or by another process, as a running one."""
        if number in self._paused:
            self._paused.remove(number)
            self.states["paused"] -= 1
        else:
            self.n_before = max(0, self.n_before - 1)

    def trial_built(self, number: int) -> None:
        if self.phase == "starting" and number in self.running:
            self.phase = "compiling"

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        trial = self.running.get(number)
        if trial is None:
            return
        by_return = self.study is None or self.study.spec.metric != "loss"
        for record in records:
            trial.env_steps[record.seed] = record.env_steps
            trial.episodes[record.seed] = record.episode + 1
            value = record.episode_return if by_return else record.loss
            if value is not None:
                trial.recent.append(value)
        if records:
            trial.record(self._clock())
            if self.phase in _BEFORE_STEPS:
                self.phase = ""

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        trial = self.running.pop(number, None)
        self.states[outcome.state] += 1
        if outcome.state == "paused":
            self._paused.add(number)
        self.phase = "" if self.phase in _BEFORE_STEPS else self.phase
        self._count_elsewhere()
        if trial is None:
            return
        if outcome.state != "interrupted":
            self._durations.append(self._clock() - trial.began)
        self._finished_steps += max(outcome.env_steps * len(trial.seeds), sum(trial.env_steps.values()))
        if trial.confirms is not None:
            return
        if outcome.state == "complete" and outcome.value is not None and self._is_best(outcome.value):
            self.best = Best(number, trial.params, outcome.value, spread_of(outcome))

    def paused_ended(self) -> None:
        self.states["pruned"] += self.states.pop("paused", 0)
        self._paused.clear()

    def _remaining_of(self, trial: RunningTrial, now: float) -> float | None:
        """Return the remaining seconds by the speed of the trial, or by its total time if no trial has ended."""
        seconds = trial.seconds_left(now)
        if seconds is None and not self._durations and trial.share > _SHARE_TO_JUDGE:
            return (now - trial.began) * (1 - trial.share) / trial.share
        return seconds

    def searched(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial without those that all trials share."""
        fixed = self.study.spec.fixed if self.study is not None else {}
        return {name: value for name, value in params.items() if name not in fixed}

    def _is_best(self, value: float) -> bool:
        if self.best is None or self.study is None:
            return True
        return value > self.best.value if self.study.direction == "maximize" else value < self.best.value


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


def spread_of(outcome: Outcome) -> float:
    """Return the standard deviation over seeds; NaN with fewer than two seeds."""
    values = list(outcome.seed_values.values())
    return statistics.stdev(values) if len(values) > 1 else math.nan
