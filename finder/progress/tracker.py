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
"""Episodes of each seed that the latest mean is taken over."""

_SHARE_TO_JUDGE = 0.05
"""Share of its budget that a trial has to use before its speed is taken for what it is."""


_BEFORE_STEPS = ("starting", "compiling")
"""Phases that end with the first episodes."""


@dataclass
class RunningTrial:
    """A trial that runs.

    Attributes:
        number: Its number.
        params: What it tries.
        seeds: Its seeds.
        budget: Of each seed, in environment steps or episodes.
        by_steps: Whether the budget is in environment steps.
        env_steps: Seed -> environment steps so far.
        episodes: Seed -> episodes so far.
        recent: Returns (or losses) of the last episodes.
        began: When it was started, by the tracker's clock.
        confirms: The trial that it runs again on further seeds, or None.
        first: When its first episodes came in, and its share of the budget then.
        last: When its newest episodes came in, and its share then.
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
        """How much of its budget it has used, from 0 to 1."""
        used = self.env_steps if self.by_steps else self.episodes
        return min(1.0, sum(used.values()) / (self.budget * len(self.seeds)))

    def mark(self, now: float) -> None:
        """Note how far it is at this time."""
        self.last = (now, self.share)
        self.first = self.first or self.last

    def seconds_left(self, now: float) -> float | None:
        """Return a guess from its speed since its first episodes; None before there is a speed."""
        if self.first is None or self.last is None:
            return None
        (first_at, first), (last_at, last) = self.first, self.last
        if last - first < _SHARE_TO_JUDGE:
            return None
        return max(0.0, (1 - last) * (last_at - first_at) / (last - first) - (now - last_at))

    @property
    def mean_steps(self) -> int:
        """Environment steps so far, the mean over its seeds."""
        return round(sum(self.env_steps.values()) / len(self.seeds))

    @property
    def latest(self) -> float | None:
        """Mean over the last episodes, None before the first."""
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
    """Follows a search. It is an `Observer` that shows nothing.

    Args:
        clock: Tells the time in seconds.

    Attributes:
        study: The study, once it is open.
        states: How many trials of this run ended in which way.
        running: Trials that run, by number.
        best: The best complete trial so far, of earlier runs too.
        n_before: Trials that had ended for good before this run.
        n_again: Trials that failed before and are tried again.
        n_total: Trials that the study will have when it is done.
        n_places: Trials that run at the same time, about.
        n_elsewhere: Trials of other processes that are waited for.
        phase: What is done before, between and after trials; empty while trials are searched among.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.study: OpenStudy | None = None
        self.states: Counter[str] = Counter()
        self.running: dict[int, RunningTrial] = {}
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

    # What is asked of it --------------------------------------------------------------------------------------

    @property
    def n_done(self) -> int:
        """Trials of this run that have ended for good."""
        states = dict(self.states)  # a copy: the display reads while the search writes
        return sum(count for state, count in states.items() if state != "interrupted")

    @property
    def elapsed(self) -> float:
        """Seconds since the first trial could start."""
        return self._clock() - self._began

    @property
    def share(self) -> float:
        """How much of this run's work is done, from 0 to 1."""
        left = self.n_total - self.n_before
        return (self.n_done + sum(trial.share for trial in list(self.running.values()))) / left if left else 1.0

    @property
    def steps_per_second(self) -> float:
        """Environment steps of all seeds of all trials, a second."""
        steps = self._finished_steps + sum(sum(trial.env_steps.values()) for trial in list(self.running.values()))
        return steps / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Return a guess; None while too little is done to make one, and while trials have started of which none has moved.

        Every running trial goes on at its own speed, what it took to start left out, or takes as long as trials usually
        take; one that has outlasted both goes on at the pace since it began. Those that wait take the place of the
        first that ends.
        """
        now = self._clock()
        running = list(self.running.values())
        if running and all(trial.first is None for trial in running):
            return None
        left = [self._left_of(trial, now) for trial in running]
        known = [(trial, seconds) for trial, seconds in zip(running, left, strict=True) if seconds is not None]
        if not self._durations and not known:
            return None
        usual = statistics.fmean(self._durations or [now - trial.began + seconds for trial, seconds in known])
        guesses = [_guess(trial, seconds, usual, now) for trial, seconds in zip(running, left, strict=True)]
        places = [guess for guess in guesses if guess is not None]
        if len(places) < len(guesses):
            return None
        n_waiting = max(0, self.n_total - self.n_before - self.n_done - len(running))
        if not places and not n_waiting:
            return None  # between the search and what follows it
        places += [0.0] * min(n_waiting, max(1, self.n_places) - len(places))
        heapq.heapify(places)
        for _ in range(n_waiting):
            heapq.heapreplace(places, places[0] + usual)
        return max(places)

    # What it hears --------------------------------------------------------------------------------------------

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        """See `Observer`."""
        from studies.analysis.recommendation import best, why_no_pick
        from studies.analysis.status import study_status

        self.study = study
        self.n_places = executor.trials_at_once(len(study.spec.seeds))
        before = study_status(study)
        self.n_again = before.n_again
        self.n_before = before.n_ended - before.n_again
        self.n_total = self.n_before + n_left
        if not why_no_pick(study):
            pick = best(study)
            self.best = Best(pick.trial, pick.params, pick.value, pick.spread)
        self._began = self._clock()

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """See `Observer`."""
        self.n_total += len(rows)

    def confirmation_begins(self, n_finalists: int) -> None:
        """See `Observer`."""
        self.n_total += n_finalists
        self.phase = f"confirming {the_best(n_finalists)}"

    def others_run(self, n_trials: int) -> None:
        """See `Observer`."""
        self.n_elsewhere = n_trials
        self.phase = ""
        self._look_around()

    def _look_around(self) -> None:
        """Count what other processes have done."""
        from studies.analysis.status import status_of

        if self.study is not None and self.study.storage.shared:
            now = status_of(self.study.spec, self.study.trials())
            self.n_before, self.n_total = max(0, now.n_ended - self.n_done), now.n_total

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        """See `Observer`."""
        self.n_elsewhere = 0
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

    def trial_built(self, number: int) -> None:
        """See `Observer`."""
        if self.phase == "starting" and number in self.running:
            self.phase = "compiling"

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """See `Observer`."""
        trial = self.running.get(number)
        if trial is None:
            return
        by_return = self.study is None or self.study.spec.metric == "return"
        for record in records:
            trial.env_steps[record.seed] = record.env_steps
            trial.episodes[record.seed] = record.episode + 1
            value = record.episode_return if by_return else record.loss
            if value is not None:
                trial.recent.append(value)
        if records:
            trial.mark(self._clock())
            if self.phase in _BEFORE_STEPS:
                self.phase = ""

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        """See `Observer`."""
        trial = self.running.pop(number, None)
        self.states[outcome.state] += 1
        self.phase = "" if self.phase in _BEFORE_STEPS else self.phase
        self._look_around()
        if trial is None:
            return
        if outcome.state != "interrupted":
            self._durations.append(self._clock() - trial.began)
        self._finished_steps += max(outcome.env_steps * len(trial.seeds), sum(trial.env_steps.values()))
        if trial.confirms is not None:
            return
        if outcome.state == "complete" and outcome.value is not None and self._is_best(outcome.value):
            self.best = Best(number, trial.params, outcome.value, spread_of(outcome))

    def _left_of(self, trial: RunningTrial, now: float) -> float | None:
        """Its own speed; where that is not known yet and no trial has ended, all of its time."""
        seconds = trial.seconds_left(now)
        if seconds is None and not self._durations and trial.share > _SHARE_TO_JUDGE:
            return (now - trial.began) * (1 - trial.share) / trial.share
        return seconds

    def searched(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a trial's parameters without those that every trial has."""
        fixed = self.study.spec.fixed if self.study is not None else {}
        return {name: value for name, value in params.items() if name not in fixed}

    def _is_best(self, value: float) -> bool:
        if self.best is None or self.study is None:
            return True
        return value > self.best.value if self.study.direction == "maximize" else value < self.best.value


def _guess(trial: RunningTrial, seconds: float | None, usual: float, now: float) -> float | None:
    """Seconds that a running trial still takes; None where it has outlasted the usual time and not moved.

    Args:
        trial: The trial.
        seconds: By its speed since its first episodes, or None.
        usual: What trials usually take.
        now: The time.
    """
    lasted = now - trial.began
    left = usual - lasted if seconds is None else seconds
    if left > 0 or trial.share >= 1:
        return max(0.0, left)
    return lasted * (1 - trial.share) / trial.share if trial.share > 0 else None


def spread_of(outcome: Outcome) -> float:
    """Return the standard deviation over seeds, NaN with fewer than two."""
    values = list(outcome.seed_values.values())
    return statistics.stdev(values) if len(values) > 1 else math.nan
