"""The state of a running search as numbers; `finder.progress.search_progress` displays them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from finder.progress.best import Best, best_of, metric_text
from finder.progress.forecast import Forecast, Standing
from finder.progress.running_trial import RunningTrial
from finder.progress.trial_forecast import TrialForecast
from studies.words import counted

if TYPE_CHECKING:
    from finder.executors.executor import Executor
    from finder.trials.trial import Outcome, TrialSpec
    from studies.database.records import EpisodeRecord
    from studies.study.study import OpenStudy

_BEFORE_STEPS = ("starting", "compiling")
"""Phases that end with the first episodes."""


class Tracker:
    """Tracks the state of a search. An `Observer` without a display.

    Args:
        clock: Returns the time in seconds.

    Attributes:
        study: The study, once it is open.
        states: Number of trials of this process by their state after they ran, without paused ones.
        running: Running trials by number.
        best: The best complete trial so far, including earlier processes.
        n_before: Number of trials that had ended before.
        n_paused: Number of trials that are paused.
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
        self.n_paused = 0
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
        self._n_search: int | None = None  # trials of the search, once the confirmation has begun
        self._forecast: Forecast | TrialForecast = TrialForecast()
        self._until: float | None = None  # time of the limit

    # State --------------------------------------------------------------------------------------

    @property
    def n_done(self) -> int:
        """Number of trials of this process that have ended."""
        states = dict(self.states)  # a copy: the display reads while the search writes
        return sum(count for state, count in states.items() if state != "interrupted")

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the search."""
        return self._clock() - self._began

    @property
    def counts(self) -> tuple[int, int]:
        """Trials that have ended, and all: of the search, or of its confirmation once that has begun."""
        before = self._n_search or 0
        return max(0, self.n_before + self.n_done - before), self.n_total - before

    @property
    def is_confirming(self) -> bool:
        """True once the confirmation has begun."""
        return self._n_search is not None

    @property
    def share(self) -> float:
        """Share of the work of this process that is done, from 0 to 1."""
        return self._forecast.share(self._standing)

    @property
    def steps_per_second(self) -> float:
        """Environment steps a second over all seeds of all trials."""
        steps = self._finished_steps + sum(trial.steps_made for trial in list(self.running.values()))
        return steps / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the remaining seconds; None if there is too little progress. It may exceed the time limit."""
        return self._forecast.seconds_left(self._standing, self._clock())

    @property
    def seconds_to_limit(self) -> float | None:
        """Seconds until running trials are stopped; None without a time limit."""
        return None if self._until is None else max(0.0, self._until - self._clock())

    @property
    def _standing(self) -> Standing:
        # The list is a copy: the display reads while the search writes.
        return Standing(list(self.running.values()), self.n_done, self.n_total - self.n_before, self.n_paused)

    # Events --------------------------------------------------------------------------------------------

    def time_limited(self, seconds: float) -> None:
        self._until = self._clock() + seconds

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        from studies.analysis.status import study_status

        self.study = study
        self.n_places = executor.trials_at_once(len(study.spec.seeds))
        before = study_status(study)
        self.n_again = before.n_again
        self.n_before, self.n_paused = before.n_ended - before.n_again, before.n_paused
        n_new = before.n_total - self.n_before - self.n_paused if before.n_paused else n_left
        self.n_total = self.n_before + self.n_paused + max(0, n_new)
        if study.storage.shared and not study.confirmation_trials():
            self.n_total = max(self.n_total, before.n_total)  # other processes run the rest
        if executor.trains_together:
            self._forecast = Forecast(study.spec, self.n_places)
        else:
            self._forecast = TrialForecast(study.spec, self.n_places, confirms=bool(study.confirmation_trials()))
        self.best = best_of(study, self.searched)
        self._began = self._clock()

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.n_total += len(rows)

    def trials_added(self, n_trials: int) -> None:
        self.n_total += n_trials

    def confirmation_begins(self, n_finalists: int) -> None:
        from studies.study.study import reloaded

        spec = None if self.study is None else reloaded(self.study).spec
        self._forecast.confirmation_begins(spec, self.n_done)
        self._n_search = self.n_before + self.n_done
        self.n_total = self._n_search + n_finalists  # trials without budget are not run
        self.phase = f"confirming {counted(n_finalists, 'finalist')}"

    def others_run(self, n_trials: int) -> None:
        self.n_elsewhere = n_trials
        self.phase = ""
        self._count_elsewhere()

    def _count_elsewhere(self) -> None:
        """Count the trials of other processes, until the confirmation begins; not during an outage of the storage."""
        from studies.analysis.status import status_of
        from studies.database.retries import StorageAwayError

        if self.study is None or not self.study.storage.shared or self._n_search is not None:
            return
        if not self.study.storage.retry_policy.is_over:
            with suppress(StorageAwayError):
                now = status_of(self.study.spec, self.study.trials())
                self.n_before, self.n_total = max(0, now.n_ended - self.n_done), now.n_total
                self.n_paused = now.n_paused

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        self.n_elsewhere = 0
        if trial.promoted_from is not None:  # it was paused, here or by another process
            self.n_paused = max(0, self.n_paused - 1)
        self.running[trial.number] = RunningTrial(
            number=trial.number,
            params=self.searched(params, is_confirmation=trial.confirms is not None),
            seeds=trial.seeds,
            budget=trial.env_steps or trial.episodes or 1,
            by_steps=trial.env_steps is not None,
            began=self._clock(),
            confirms=trial.confirms,
            latest_word=self._latest_word,
        )

    @property
    def _latest_word(self) -> str:
        """Word before the mean of the last episodes, which are judged by their returns, or by the losses of updates."""
        metric = "return" if self.study is None else self.study.spec.metric
        return "lately" if metric in ("return", "loss") else "lately return"

    def trial_built(self, number: int) -> None:
        if self.phase == "starting" and number in self.running:
            self.phase = "compiling"

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        trial = self.running.get(number)
        if trial is None:
            return
        by_return = self.study is None or self.study.spec.metric != "loss"
        for record in records:
            if record.seed not in trial.env_steps and record.episode:  # resumed
                trial.steps_before[record.seed] = max(0, record.env_steps - record.length)
            trial.env_steps[record.seed] = record.env_steps
            trial.episodes[record.seed] = record.episode + 1
            value = record.episode_return if by_return else record.loss
            if value is not None:
                trial.recent[record.seed].append(value)
        if records:
            now = self._clock()
            self._forecast.progressed(trial, now)
            trial.record(now)
            if self.phase in _BEFORE_STEPS:
                self.phase = ""

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        trial = self.running.pop(number, None)
        if outcome.state == "paused":
            self.n_paused += 1
        else:
            self.states[outcome.state] += 1
        self.phase = "" if self.phase in _BEFORE_STEPS else self.phase
        self._count_elsewhere()
        if trial is None:
            return
        self._forecast.ended(trial, outcome, self._clock())
        made = 0 if trial.steps_before else outcome.env_steps * len(trial.seeds)
        self._finished_steps += max(made, trial.steps_made)
        if trial.confirms is not None:
            return
        if outcome.state == "complete" and outcome.value is not None and self._is_best(outcome.value):
            self.best = Best(number, trial.params, outcome.value, spread_of(outcome), metric_text(self.study))

    def paused_ended(self) -> None:
        self.states["pruned"] += self.n_paused
        self.n_paused = 0

    def searched(self, params: Mapping[str, Any], *, is_confirmation: bool = False) -> dict[str, Any]:
        """Return the parameters of a trial without those that all trials share."""
        fixed = self.study.spec.fixed if self.study is not None else {}
        own = {name: value for name, value in params.items() if name not in fixed}
        if is_confirmation or not self._changes_params:  # those of a confirmation are schedules
            return own
        return {f"initial {name}": value for name, value in own.items()}

    @property
    def _changes_params(self) -> bool:
        """True if trials change their parameters while they train, so that a value is not that of the first ones."""
        from studies.spec.scheduler_names import is_population_based

        return self.study is not None and is_population_based(self.study.spec.pruner)

    def _is_best(self, value: float) -> bool:
        if self.best is None or self.study is None:
            return True
        return value > self.best.value if self.study.direction == "maximize" else value < self.best.value


def spread_of(outcome: Outcome) -> float:
    """Return the standard deviation over seeds; NaN with fewer than two seeds."""
    from studies.statistics.values import spread_of_seeds

    return spread_of_seeds(list(outcome.seed_values.values()))
