"""Recorder: hands out trials of a study and writes their events, as Optuna trials and episode rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from studies.database.fencing import LeaseLostError
from studies.database.records import Ask, EpisodeRecord
from studies.database.retries import StorageAwayError
from studies.population_based.population_based import Perturbation
from studies.queue.trial_endings import BUDGET, TrialEnding, completion, failure, pause, pruning
from studies.queue.trial_queue import TakenTrial
from studies.queue.trial_states import requeue
from studies.recording.running_study import RunningStudy
from studies.schedulers.scheduler import Action
from studies.spaces.spaces import Json, check_json
from studies.spec.attributes import PAUSED_ATTR, FailureKind


class Recorder(RunningStudy):
    """Recorder of a study: hands out trials and records their events.

    Each process that runs a study has one recorder, in its parent process, which receives the events of the processes
    of the trials. It writes only the trials that it handed out. Many trials may run at the same time. All methods are
    thread-safe. A context manager; see `close`.

    Args:
        study: A study from `open_study` or `join_study`.
        retry_failed: Whether trials that failed in an earlier run without diverging are retried, after those that were
            never tried, or replaced by others of the sampler. Defaults to `True`: the cause may have been fixed.
    """

    def ask(self) -> Ask | None:
        """Return the next trial, which is running from now on; None if there is none."""
        with self._exclusive():
            return self._start(lambda: self.queue.take(self._trials.busy))

    def to_confirm(self) -> list[int]:
        """Return the finalists whose confirmations are still to be started; see `ask_confirmation`."""
        with self._exclusive():
            return self.queue.to_confirm()

    def ask_confirmation(self) -> Ask | None:
        """Return the next finalist to run on further seeds; None if there is none.

        Finalists are known when every trial of the search has ended, or when its budget allows no wait for those that
        other processes run: do not call this before.
        """
        with self._exclusive():
            return self._start(self.queue.take_confirmation)

    def _start(self, take: Callable[[], TakenTrial | None]) -> Ask | None:
        if self._closed or self.stop_reason is not None or self.is_cut_off:
            return None
        if self.spool_path is not None:  # the lease of its trial may be free by now
            self._leases.plan(self._writer.catch_up)
        taken = take()
        if taken is None:
            return None
        self._trials.start(taken.trial)
        self._writer.start(taken.trial, resumed=taken.resumed)
        number, params = taken.trial.number, self.queue.params(taken.trial)
        resumed = taken.resumed and "configuration" in taken.trial.user_attrs
        epoch = self._leases.epoch(number)
        before = taken.trial.user_attrs.get("wall_seconds", 0.0) if taken.promoted_from is not None else 0.0
        return Ask(
            number, params, taken.seeds, taken.confirms, epoch,
            resumed=resumed, promoted_from=taken.promoted_from, wall_seconds=before,
            was_paused=PAUSED_ATTR in taken.trial.user_attrs,
            is_baseline=self._is_baseline(taken.trial.params),
        )  # fmt: skip

    def started(self, number: int, configuration: Mapping[str, Json]) -> None:
        """Store the configuration from which a trial can be run again, as its attribute `configuration`.

        The episodes of a resumed trial are deleted: it sends those up to its checkpoint again.

        Raises:
            StudyError: If the trial is not running or the configuration is not JSON.
        """
        check_json(dict(configuration))
        with self._exclusive():
            if not self._trials.is_taken(number):
                trial = self._trials.running_trial(number)
                with self._trials.unless_lost(trial):
                    self._writer.started(trial, configuration)

    def episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Record finished episodes of a trial. They are written in batches, at the latest with the next call after 1 s.

        Episodes that arrive after the end of the trial are recorded too.

        Raises:
            StudyError: If this recorder never handed out the trial.
        """
        with self._exclusive():
            if not self._trials.is_over(number):
                self._trials.running_trial(number)
            if not self._trials.is_taken(number):
                self._writer.episodes(number, records)

    def report(self, number: int, env_steps: int, value: float) -> bool:
        """Record an intermediate value and ask the scheduler.

        Args:
            number: Number of the trial.
            env_steps: Environment steps that each seed has taken. Trials are compared at equal steps, so report at
                `StudySpec.report_marks` if the budget is in steps.
            value: Value over seeds. NaN and infinities are not recorded.

        Returns:
            True if the trial is to stop: it is pruned, or has ended already.
        """
        return number in self.rung(env_steps, {number: {self._study.spec.seeds[0]: value}})

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> set[int]:
        """Record the values of several trials at the same step, and ask the scheduler about each of them.

        All values are recorded before the scheduler is asked, so that the order of trials does not matter.

        Args:
            env_steps: Environment steps that each seed of each trial has taken; see `report`.
            values: Trial -> seed -> value. The mean over seeds is reported; NaN and infinities are not recorded.

        Returns:
            The trials to stop: pruned and paused ones, and those that have ended already.

        Raises:
            StudyError: If this recorder never handed out one of the trials, or `env_steps` is negative.
        """
        decided = self.decide(env_steps, values)
        return {number for number, action in decided.items() if not action.continues}

    def decide(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> dict[int, Action]:
        """Record values as `rung` does, and return the decision on each trial.

        A trial is only paused by a scheduler that pauses trials (`asha`). Save its state, and call `paused`; `ask`
        returns it again when it is promoted. A caller that cannot save states calls `pruned` instead.
        """
        with self._exclusive():
            return self._rungs.decide(env_steps, values)

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int] = ()
    ) -> list[Perturbation]:
        """Record the values of the members of a population in an interval, and return who copies whom.

        Args:
            env_steps: Environment steps of each run, at the end of the interval.
            values: Trial -> seed -> value in the interval.
            diverged: Trials that diverged in the interval and have no value. Defaults to none.
        """
        with self._exclusive():
            numbers = [number for number in sorted({*values, *diverged}) if not self._trials.is_over(number)]
            trials = [self._trials.running_trial(number) for number in numbers]
            return self._exchanges.at(env_steps, trials, values, self._trials.unless_lost)

    def completed(
        self,
        number: int,
        value: float,
        seed_values: Mapping[int, float] | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        """Record the end of a trial that used its whole budget.

        If the value, or that of a seed, is NaN or infinite, the trial is recorded as failed with that reason, and the
        study continues.

        Args:
            number: Number of the trial.
            value: Value over seeds.
            seed_values: Value of each seed.
            extra: Small JSON attributes, such as `wall_seconds` and `env_steps`.
        """
        with self._exclusive():
            self._end(number, completion(value, seed_values, {**(extra or {}), **self._exchanges.attrs(number)}))

    def pruned(
        self,
        number: int,
        env_steps: int,
        value: float,
        seed_values: Mapping[int, float] | None = None,
        extra: Mapping[str, Json] | None = None,
        *,
        by_budget: bool = False,
    ) -> None:
        """Record the end of a pruned trial.

        Args:
            number: Number of the trial.
            env_steps: Environment steps that each seed has taken.
            value: Value when it was stopped; recorded as the last intermediate value if it is finite.
            seed_values: Value of each seed at that time; those that are not finite are left out.
            extra: Small JSON attributes.
            by_budget: Whether it was stopped so that others can end within the budget of the search, not by the
                scheduler. Defaults to False.

        Raises:
            StudyError: If the trial is not running or `extra` is not JSON.
        """
        with self._exclusive():
            try:
                if not self._trials.is_taken(number):
                    trial = self._trials.running_trial(number)
                    with self._trials.unless_lost(trial):
                        self._writer.last_report(trial, env_steps, value)
            finally:
                scheduler = BUDGET if by_budget else self._study.spec.pruner
                self._end(number, pruning(scheduler, env_steps, value, seed_values, extra))

    def paused(
        self,
        number: int,
        env_steps: int,
        seed_values: Mapping[int, float] | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        """Record that a trial was paused; it waits until it is promoted, or until `end_paused`.

        Args:
            number: Number of the trial.
            env_steps: Environment steps of its last report.
            seed_values: Value of each seed at that time.
            extra: Small JSON attributes.

        Raises:
            StudyError: If the trial is not running or `extra` is not JSON.
        """
        attrs = pause(env_steps, seed_values, extra)
        with self._exclusive():
            if self._end_here(number):
                return
            trial = self._trials.running_trial(number)
            self._failures.interrupt()
            with self._trials.unless_lost(trial):
                self._writer.waits(trial, attrs)
            if not self._end_here(number):
                self._requeue(trial)

    def end_paused(self, *, is_over: bool = False) -> bool:
        """End all paused trials as pruned if none of them can be promoted any more; return whether there were any.

        Args:
            is_over: Whether the search is over, whatever could still be run. Defaults to False.
        """
        with self._exclusive():
            return self.queue.end_paused(is_over=is_over)

    def failed(
        self,
        number: int,
        reason: str,
        traceback: str = "",
        extra: Mapping[str, Json] | None = None,
        *,
        kind: FailureKind = "error",
        diverged: bool = False,
    ) -> None:
        """Record the end of a trial that raised, diverged or lost its process. Its state is FAIL, never PRUNED.

        Args:
            number: Number of the trial.
            reason: A sentence for users.
            traceback: Traceback; the last 8 KB are stored.
            extra: Small JSON attributes.
            kind: Kind of the failure. A divergence does not count towards `max_failures_in_a_row` once a trial worked.
            diverged: True is the same as `kind="diverged"`.
        """
        kind = "diverged" if diverged else kind
        with self._exclusive():
            try:
                tolerated = kind == "diverged" and any(
                    _works(each) for each in self._study.trials() if each.number != number
                )
            except StorageAwayError:  # the ending is kept, and the outage ends the study
                tolerated = True
            self._end(number, failure(reason, traceback, extra, kind=kind), counts=not tolerated)

    def interrupted(self, number: int, attrs: Mapping[str, Json] | None = None) -> None:
        """Requeue a trial that was interrupted (Ctrl-C), so that it is resumed with the study.

        Args:
            number: Number of the trial.
            attrs: Attributes to store before. Defaults to none.

        Raises:
            StudyError: If the trial is not running.
        """
        with self._exclusive():
            if self._end_here(number):
                return
            trial = self._trials.running_trial(number)
            if attrs:
                with self._trials.unless_lost(trial):
                    self._writer.waits(trial, attrs)
            if not self._end_here(number):
                self._requeue(trial)

    def _requeue(self, trial: Trial) -> None:
        """Requeue a trial and release its lease."""
        if not self.is_cut_off:
            self._writer.flush()
            # An interrupt may have happened between the write and the bookkeeping: the trial has ended already.
            with contextlib.suppress(UpdateFinishedTrialError, LeaseLostError):
                requeue(self._study.study, trial._trial_id)
            self._leases.release(trial.number)
        self.queue.requeue(trial.number)
        self._trials.requeue(trial.number)
        self._writer.forget(trial.number)

    def flush(self) -> None:
        """Write the buffered episodes. Call it occasionally while there are no events."""
        with self._exclusive():
            self._writer.flush()

    def close(self) -> None:
        """Write buffered episodes, requeue running trials, and release all leases. Idempotent."""
        with self._exclusive():
            if self._closed:
                return
            self._closed = True
            try:
                for trial in list(self._trials.running.values()):
                    self._requeue(trial)
                self._writer.flush()
            finally:
                self._leases.close(cut_off=self.is_cut_off)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _end_here(self, number: int) -> bool:
        """Return whether another process took over a trial that ends here; this process may resume it if it waits."""
        if not self._trials.discard_taken(number):
            return False
        if not self.is_cut_off:
            self._leases.release(number)
        self.queue.requeue(number)
        return True

    def _end(self, number: int, ending: TrialEnding, *, counts: bool = True) -> None:
        if self._end_here(number):
            return
        trial = self._trials.running_trial(number)
        try:
            with self._trials.unless_lost(trial):
                self._writer.end(trial, ending)
            if self._end_here(number):
                return
            if not self.is_cut_off:
                self._leases.release(number)
        finally:
            if number in self._trials.running:
                self._trials.end(number)
                self._writer.forget(number)
        self._failures.add(ending, self._study.spec.max_failures_in_a_row, counts=counts)


def _works(trial: FrozenTrial) -> bool:
    """Return whether a trial shows that agent and environment work: it has ended well, or has reached a rung so far."""
    if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
        return True
    return bool(trial.intermediate_values) and trial.state in (TrialState.RUNNING, TrialState.WAITING)
