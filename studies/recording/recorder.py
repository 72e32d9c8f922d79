"""Hands out trials of a study, and records what happens to them: as Optuna trials and episode rows."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from studies.coordination.running_trials import RunningTrials
from studies.database.fencing import LeaseLostError
from studies.database.records import Ask, EpisodeRecord
from studies.errors import StudyError
from studies.recording.trial_endings import TrialEnding, completion, failure, pruning
from studies.recording.trial_queue import TakenTrial, TrialQueue
from studies.recording.trial_states import requeue
from studies.recording.writer import Writer
from studies.spec.attributes import REASON_ATTR, is_open, is_run_by_others
from studies.spec.spaces import Json, check_json
from studies.study.study import OpenStudy


class Recorder:
    """Hands out trials and records what happens to them.

    Each process that runs a study has one, in the parent process; what its trials' own processes have to tell is sent
    there. It writes the trials that it handed out and no others. Many trials may be in flight. Every method may be
    called from any thread. A context manager; see `close`.

    Args:
        study: A study from `open_study` or `join_study`.
        retry_failed: Whether a plan's trials that failed in an earlier run are run again, after those that were never
            tried. Defaults to `True`: what made them fail may have been mended.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool = True) -> None:
        if study.leases is None:
            raise StudyError(f"the study {study.name!r} is open for reading only.")
        self._leases = study.leases
        self._lock = threading.RLock()
        self._study = study
        self._writer = Writer(study, study.leases)
        self._trials = RunningTrials(self._writer.drop)
        self._failures = 0
        self._stop_reason: str | None = None
        self._closed = False
        self.seconds = 0.0
        """Wall time, in seconds, spent inside this recorder so far: what recording costs."""
        self._leases.start_renewing()
        with self._entered():
            self._leases.plan(self._writer.catch_up)
            self._queue = TrialQueue(study, self._leases, retry_failed=retry_failed)

    def extend_plan(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Adds trials to an explicit plan when all of it has ended, and returns the study as it goes on.

        Trials that failed are not tried again because of that.

        Raises:
            StudyError: If the study has no explicit plan, trials are running, or a row does not fit.
        """
        with self._entered():
            if running := sorted(self._trials.running):
                raise StudyError(f"trials {running} are running: the plan grows when they have ended.")
            self._study = self._queue.extend_plan(rows)
            return self._study

    def refresh(self) -> OpenStudy:
        """Returns the study as it is now, with what another process may have added to its plan."""
        with self._entered():
            self._study = self._queue.refresh()
            return self._study

    @property
    def stop_reason(self) -> str | None:
        """Why the study should stop before its last trial: too many failures in a row; None while it should go on."""
        return self._stop_reason

    @property
    def spool_path(self) -> Path | None:
        """The file with what the storage, which is away, does not know of yet; None if it knows of everything."""
        return self._writer.spool_path

    @property
    def is_cut_off(self) -> bool:
        """Whether the storage stayed away for longer than anybody waits."""
        return self._writer.is_cut_off

    @property
    def open_trials(self) -> set[int]:
        """Numbers of the trials that have begun and not ended: those that run, and those that wait to go on."""
        return {trial.number for trial in self._study.all_trials() if is_open(trial)}

    @property
    def n_elsewhere(self) -> int:
        """Trials that other processes run, or ran when they were killed."""
        running = [trial for trial in self._study.all_trials() if trial.state == TrialState.RUNNING]
        return sum(trial.number not in self._trials.running and not is_run_by_others(trial) for trial in running)

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether another process leads the study: it may plan further trials when all have ended."""
        return self._queue.is_led_elsewhere

    @property
    def share(self) -> int | None:
        """Most trials that a worker should take at a time; None for whoever leads the study, who takes what it can."""
        return self._queue.share

    @property
    def n_left(self) -> int:
        """Trials that are still to be started if nothing stops the study before."""
        return self._queue.n_left

    @property
    def n_to_resume(self) -> int:
        """Trials that wait to continue; the next ones that `ask` returns."""
        return self._queue.n_to_resume

    def ask(self) -> Ask | None:
        """Returns the next trial to run, RUNNING from now on; None if nothing is left to start."""
        with self._entered():
            return self._begin(lambda: self._queue.take(self._trials.busy))

    def n_to_confirm(self) -> int:
        """Returns how many trials are to be confirmed that were not begun yet; see `ask_confirmation`."""
        with self._entered():
            return self._queue.n_to_confirm()

    def ask_confirmation(self) -> Ask | None:
        """Returns the next finalist to run on further seeds; None if nothing is left to confirm.

        Finalists are known when every trial of the search has ended, and not before: ask for none until then.
        """
        with self._entered():
            return self._begin(self._queue.take_confirmation)

    def _begin(self, take: Callable[[], TakenTrial | None]) -> Ask | None:
        if self._closed or self._stop_reason is not None or self.is_cut_off:
            return None
        if self.spool_path is not None:  # it may be free by now
            self._leases.plan(self._writer.catch_up)
        taken = take()
        if taken is None:
            return None
        self._trials.begin(taken.trial)
        self._writer.begin(taken.trial, again=taken.again)
        number, params = taken.trial.number, self._queue.params(taken.trial)
        resumed = taken.again and "configuration" in taken.trial.user_attrs
        return Ask(number, params, taken.seeds, taken.confirms, epoch=self._leases.epoch(number), resumed=resumed)

    def started(self, number: int, configuration: Mapping[str, Json]) -> None:
        """Keeps what is needed to run a trial again, as its attribute `configuration`.

        Of a trial that goes on, the episodes are forgotten: those up to its checkpoint are told again.

        Raises:
            StudyError: If the trial is not running or the configuration is not JSON.
        """
        check_json(dict(configuration))
        with self._entered():
            if not self._trials.is_taken(number):
                trial = self._trials.running_trial(number)
                with self._trials.unless_lost(trial):
                    self._writer.started(trial, configuration)

    def episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Takes finished episodes of a trial; they are written in batches, at the latest with the next call after 1 s.

        Episodes that arrive after the trial has ended are kept too.

        Raises:
            StudyError: If this recorder never handed out the trial.
        """
        with self._entered():
            if not self._trials.is_over(number):
                self._trials.running_trial(number)
            if not self._trials.is_taken(number):
                self._writer.episodes(number, records)

    def report(self, number: int, env_steps: int, value: float) -> bool:
        """Records an intermediate value and asks the pruner.

        Args:
            number: The trial.
            env_steps: Environment steps that each seed has taken. Trials are compared at equal steps, so report at
                `StudySpec.report_marks` where the budget is in steps.
            value: The value over seeds. NaN and infinities say that nothing is known yet: they are not kept.

        Returns:
            Whether to stop the trial: True if it fell behind, and for a trial that has been ended already.

        Raises:
            StudyError: If this recorder never handed out the trial, or `env_steps` is negative.
        """
        return number in self.rung(env_steps, {number: {self._study.spec.seeds[0]: value}})

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> set[int]:
        """Records the values of several trials that have come equally far, and asks the pruner about each of them.

        All are recorded before the first is asked about, so that nobody is judged by where it stands in the list.

        Args:
            env_steps: Environment steps that each seed of each trial has taken; see `report`.
            values: Trial -> seed -> value. The interquartile mean over the seeds is what is reported; NaN and
                infinities are not kept.

        Returns:
            The trials to stop: those that fell behind, and those that have been ended already.

        Raises:
            StudyError: If this recorder never handed out one of the trials, or `env_steps` is negative.
        """
        with self._entered():
            if env_steps < 0:
                raise StudyError(f"env_steps is {env_steps}: a trial reports after 0 or more environment steps.")
            stopped = {number for number in values if self._trials.is_over(number)}
            asked: list[Trial] = []
            for number in values.keys() - stopped:
                trial, is_judged = self._trials.running_trial(number), not self._queue.is_confirmation(number)
                with self._trials.unless_lost(trial):
                    if self._writer.report(trial, env_steps, values[number], by_seed=is_judged) and is_judged:
                        asked.append(trial)
            for trial in asked:
                with self._trials.unless_lost(trial):
                    stopped |= {trial.number} if trial.should_prune() else set()
            return stopped | {number for number in values if self._trials.is_taken(number)}

    def completed(
        self,
        number: int,
        value: float,
        seed_values: Mapping[int, float] | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        """Ends a trial that trained to its end.

        A value, or a seed's value, that is NaN or infinite is no result: the trial is recorded as failed with that
        reason, and the study goes on.

        Args:
            number: The trial.
            value: Its value: the mean over seeds.
            seed_values: Each seed's value.
            extra: Small JSON attributes, such as `wall_seconds` and `env_steps`.

        Raises:
            StudyError: If the trial is not running or `extra` is not JSON.
        """
        with self._entered():
            self._end(number, completion(value, seed_values, extra))

    def pruned(
        self,
        number: int,
        env_steps: int,
        value: float,
        seed_values: Mapping[int, float] | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        """Ends a trial that was stopped because it fell behind; its value is the last one reported.

        Args:
            number: The trial.
            env_steps: Environment steps that each seed has taken.
            value: The value when it was stopped; kept as the last intermediate value if it is finite.
            seed_values: Each seed's value then; those that are not finite are left out.
            extra: Small JSON attributes.

        Raises:
            StudyError: If the trial is not running or `extra` is not JSON.
        """
        with self._entered():
            try:
                if not self._trials.is_taken(number):
                    trial = self._trials.running_trial(number)
                    with self._trials.unless_lost(trial):
                        self._writer.last_report(trial, env_steps, value)
            finally:
                self._end(number, pruning(self._study.spec.pruner, env_steps, value, seed_values, extra))

    def failed(
        self,
        number: int,
        reason: str,
        traceback: str = "",
        extra: Mapping[str, Json] | None = None,
        *,
        diverged: bool = False,
    ) -> None:
        """Ends a trial that raised, diverged or lost its process. It is told FAIL, never PRUNED.

        Args:
            number: The trial.
            reason: One sentence for a person.
            traceback: The traceback; its last 8 KB are kept, where the cause is.
            extra: Small JSON attributes.
            diverged: Whether it failed because of what it tried, such as a learning rate that is too high. That does
                not count towards `max_failures_in_a_row` once a trial of the study was completed or pruned.

        Raises:
            StudyError: If the trial is not running or `extra` is not JSON.
        """
        with self._entered():
            ending = failure(reason, traceback, extra, diverged=diverged)
            self._end(number, ending, counts=not (diverged and self._something_works()))

    def _something_works(self) -> bool:
        return any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self._study.trials())

    def interrupted(self, number: int) -> None:
        """Lets a trial wait that was stopped from outside (Ctrl-C): when the study goes on, so does the trial.

        Raises:
            StudyError: If the trial is not running.
        """
        with self._entered():
            if not self._let_go(number):
                self._requeue(self._trials.running_trial(number))

    def _requeue(self, trial: Trial) -> None:
        """Leaves a trial to whoever goes on with it."""
        if not self.is_cut_off:
            self._writer.flush()
            # An interrupt may have hit between the storage's write and our own bookkeeping: it is ended already.
            with contextlib.suppress(UpdateFinishedTrialError, LeaseLostError):
                requeue(self._study.study, trial._trial_id)
            self._leases.release(trial.number)
        self._queue.waits(trial.number)
        self._trials.requeue(trial.number)
        self._writer.forget(trial.number)

    def flush(self) -> None:
        """Writes the episodes that are waiting. Call it now and then in a long silence."""
        with self._entered():
            self._writer.flush()

    def close(self) -> None:
        """Writes what is buffered, lets the trials wait that are still running, and gives the study free.

        May be called twice.
        """
        with self._entered():
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

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        """Every public call runs in here: one at a time, and its time measured."""
        with self._lock:
            begun = time.perf_counter()
            try:
                for number in self._leases.pop_lost() & self._trials.running.keys():
                    self._trials.drop(number)
                yield
            finally:
                self.seconds += time.perf_counter() - begun

    def _let_go(self, number: int) -> bool:
        """Whether a trial that comes to its end here is another process's; if it waits, it may go on here again."""
        if not self._trials.let_go(number):
            return False
        if not self.is_cut_off:
            self._leases.release(number)
        self._queue.waits(number)
        return True

    def _end(self, number: int, ending: TrialEnding, *, counts: bool = True) -> None:
        if self._let_go(number):
            return
        trial = self._trials.running_trial(number)
        try:
            with self._trials.unless_lost(trial):
                self._writer.end(trial, ending)
            if self._let_go(number):
                return
            if not self.is_cut_off:
                self._leases.release(number)
        finally:
            if number in self._trials.running:
                self._trials.end(number)
                self._writer.forget(number)
        if ending.state != TrialState.FAIL:
            self._failures = 0
            return
        self._failures += counts
        if self._failures >= self._study.spec.max_failures_in_a_row and self._stop_reason is None:
            self._stop_reason = f"{self._failures} trials failed in a row; the last one: {ending.attrs[REASON_ATTR]}"
