"""The study's only writer: events of running trials become Optuna trials and episode rows."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from studies.attributes import DIVERGED_ATTR, REASON_ATTR, is_open
from studies.beginning import put_back
from studies.confirming import Confirmations
from studies.endings import end_of, seed_attrs, why_pruned
from studies.errors import StudyError
from studies.lease import REFRESH_SECONDS, sign_of_life
from studies.records import Ask, EpisodeRecord
from studies.reported import Reported
from studies.spaces import Json, check_json
from studies.study import RUNNER_ATTR, TRACEBACK_ATTR, OpenStudy, planned_further
from studies.trial_source import TrialSource
from studies.values import iqm

FLUSH_ROWS = 5_000
FLUSH_SECONDS = 1.0
REASON_CHARACTERS = 1_000


class Recorder:
    """Hands out trials and records what happens to them.

    Exactly one recorder writes a study, in the parent process; trials in other processes send it events. Many trials
    may be in flight. Every method may be called from any thread. A context manager; see `close`.

    Args:
        study: A study from `open_study`.
        retry_failed: Whether a plan's trials that failed in an earlier run are run again, after those that were never
            tried. Defaults to `True`: what made them fail may have been mended.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool = True) -> None:
        self._lock = threading.RLock()
        self._running: dict[int, Trial] = {}
        self._again: set[int] = set()  # trials that had begun before
        self._confirmations = Confirmations(study)
        self._reported = Reported(study)
        self._finished: set[int] = set()
        self._buffer: list[tuple[int, EpisodeRecord]] = []
        self._flushed_at = time.monotonic()
        self._seen_at = -math.inf
        self._failures = 0
        self._stop_reason: str | None = None
        self._closed = False
        self.seconds = 0.0
        """Wall time, in seconds, spent inside this recorder so far: what recording costs."""
        self._study = study
        with self._entered():
            self._take_trials(retry_failed=retry_failed)

    def _take_trials(self, *, retry_failed: bool) -> None:
        self._spec = self._study.spec
        self._source = TrialSource(self._study, retry_failed=retry_failed)
        if not self._spec.confirm:
            self._confirmations.give_up()

    def plan_further(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Adds trials to an explicit plan when all of it has ended, and returns the study as it goes on.

        Trials that failed are not tried again because of that.

        Raises:
            StudyError: If the study has no explicit plan, trials are running, or a row does not fit.
        """
        with self._entered():
            if self._running:
                raise StudyError(f"trials {sorted(self._running)} are running: the plan grows when they have ended.")
            self._study = planned_further(self._study, rows)
            self._take_trials(retry_failed=False)
            return self._study

    @property
    def stop_reason(self) -> str | None:
        """Why the study should stop before its last trial: too many failures in a row; None while it should go on."""
        return self._stop_reason

    @property
    def open_trials(self) -> set[int]:
        """Numbers of the trials that have begun and not ended: those that run, and those that wait to go on."""
        return {trial.number for trial in self._study.all_trials() if is_open(trial)}

    @property
    def n_left(self) -> int:
        """Trials that are still to be started if nothing stops the study before."""
        return self._source.n_left

    def ask(self) -> Ask | None:
        """Returns the next trial to run, RUNNING from now on; None if nothing is left to start."""
        with self._entered():
            if self._closed or self._stop_reason is not None:
                return None
            taken = self._source.take()
            return None if taken is None else self._begun(taken.trial, self._spec.seeds, again=taken.again)

    def _begun(self, trial: Trial, seeds: tuple[int, ...], confirms: int | None = None, *, again: bool) -> Ask:
        self._running[trial.number] = trial
        self._reported.begin(trial)
        if again:
            self._again.add(trial.number)
        return Ask(trial.number, self._source.params(trial), seeds, confirms)

    def n_to_confirm(self) -> int:
        """Returns how many trials are to be confirmed that were not begun here yet; see `ask_confirmation`."""
        with self._entered():
            return self._confirmations.look_again()

    def ask_confirmation(self) -> Ask | None:
        """Returns the next finalist to run on further seeds; None if nothing is left to confirm.

        Finalists are known when every trial of the search has ended, and not before: ask for none until then.
        """
        with self._entered():
            if self._closed or self._stop_reason is not None:
                return None
            begun = self._confirmations.begin()
            if begun is None:
                return None
            return self._begun(begun.trial, begun.seeds, begun.finalist, again=begun.again)

    def started(self, number: int, configuration: Mapping[str, Json]) -> None:
        """Keeps what is needed to run a trial again, as its attribute `configuration`.

        Of a trial that goes on, the episodes are forgotten: those up to its checkpoint are told again.

        Raises:
            StudyError: If the trial is not running or the configuration is not JSON.
        """
        with self._entered():
            check_json(dict(configuration))
            trial = self._trial(number)
            if number in self._again:
                self._flush()
                self._study.storage.episodes.delete(self._study.episodes_key, number)
                self._reported.begin(trial)
            self._again.add(number)  # its process may die, and another one go on with it
            trial.set_user_attr("configuration", dict(configuration))

    def episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Takes finished episodes of a trial; they are written in batches, at the latest with the next call after 1 s.

        Episodes that arrive after the trial has ended are kept too.

        Raises:
            StudyError: If this recorder never handed out the trial.
        """
        with self._entered():
            if number not in self._finished:
                self._trial(number)
            self._buffer.extend((number, record) for record in records)
            if len(self._buffer) >= FLUSH_ROWS or time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
                self._flush()

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
        return number in self.rung(env_steps, {number: {self._spec.seeds[0]: value}})

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
            stopped = {number for number in values if number in self._finished}
            asked: list[Trial] = []
            for number, seed_values in values.items():
                if number in stopped:
                    continue
                trial = self._trial(number)
                kept = self._reported.keep(trial, env_steps, float(iqm(list(seed_values.values()))))
                if kept and number not in self._confirmations:
                    self._reported.keep_seeds(trial, env_steps, seed_values)
                    asked.append(trial)
            return stopped | {trial.number for trial in asked if trial.should_prune()}

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
            values = {"value": value, **{f"value of seed {seed}": each for seed, each in (seed_values or {}).items()}}
            wrong = [f"the {name} is {each}" for name, each in values.items() if not math.isfinite(each)]
            if wrong:
                self._fail(number, f"no usable result: {wrong[0]}", "", extra)
                return
            self._end(number, TrialState.COMPLETE, float(value), seed_attrs(seed_values, extra))
            self._failures = 0

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
            trial = self._trial(number)
            self._reported.keep(trial, env_steps, value, always=True)
            known = {seed: each for seed, each in (seed_values or {}).items() if math.isfinite(each)}
            attrs = {"pruned_at": int(env_steps), REASON_ATTR: why_pruned(self._spec.pruner, env_steps, value)}
            self._end(number, TrialState.PRUNED, None, {**attrs, **seed_attrs(known, extra)})
            self._failures = 0

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
            marked = {**(extra or {}), DIVERGED_ATTR: True} if diverged else extra
            self._fail(number, reason, traceback, marked, counts=not (diverged and self._something_works()))

    def _something_works(self) -> bool:
        return any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self._study.trials())

    def interrupted(self, number: int) -> None:
        """Lets a trial wait that was stopped from outside (Ctrl-C): when the study goes on, so does the trial.

        Raises:
            StudyError: If the trial is not running.
        """
        with self._entered():
            trial = self._trial(number)
            self._flush()
            if number in self._confirmations:
                put_back(self._study.study, trial._trial_id)
                self._confirmations.put_back(number)
            else:
                self._source.put_back(trial)
            self._forget(number)

    def flush(self) -> None:
        """Writes the episodes that are waiting and gives a sign of life. Call it now and then in a long silence."""
        with self._entered():
            self._flush()

    def close(self) -> None:
        """Writes what is buffered, and lets the trials wait that are still running. May be called twice."""
        with self._entered():
            if self._closed:
                return
            self._closed = True
            for number in list(self._running):
                # An interrupt may have hit between the storage's write and our own bookkeeping: it is ended already.
                with contextlib.suppress(UpdateFinishedTrialError):
                    put_back(self._study.study, self._running[number]._trial_id)
                self._forget(number)
            self._flush()
            self._study.study.set_user_attr(RUNNER_ATTR, None)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        """Every public call runs in here: one at a time, its time measured, a sign of life given when it is due."""
        with self._lock:
            begun = time.perf_counter()
            try:
                if not self._closed and time.monotonic() - self._seen_at >= REFRESH_SECONDS:
                    self._study.study.set_user_attr(RUNNER_ATTR, sign_of_life())
                    self._seen_at = time.monotonic()
                yield
            finally:
                self.seconds += time.perf_counter() - begun

    def _trial(self, number: int) -> Trial:
        try:
            return self._running[number]
        except KeyError:
            state = "has ended already" if number in self._finished else "was never handed out by this recorder"
            raise StudyError(f"trial {number} {state}: running are {sorted(self._running)}.") from None

    def _fail(
        self, number: int, reason: str, traceback: str, extra: Mapping[str, Json] | None, *, counts: bool = True
    ) -> None:
        attrs: dict[str, Json] = dict(extra or {})
        attrs[REASON_ATTR] = reason[:REASON_CHARACTERS]
        if traceback:
            attrs[TRACEBACK_ATTR] = end_of(traceback)
        self._end(number, TrialState.FAIL, None, attrs)
        self._failures += counts
        if self._failures >= self._spec.max_failures_in_a_row and self._stop_reason is None:
            self._stop_reason = f"{self._failures} trials failed in a row; the last one: {attrs[REASON_ATTR]}"

    def _end(self, number: int, state: TrialState, value: float | None, attrs: Mapping[str, Json]) -> None:
        trial = self._trial(number)
        check_json(dict(attrs))
        self._flush()
        for key, attr in attrs.items():
            trial.set_user_attr(key, attr)
        self._study.study.tell(trial, value, state=state)
        self._forget(number)
        self._finished.add(number)

    def _forget(self, number: int) -> None:
        del self._running[number]
        self._reported.end(number)

    def _flush(self) -> None:
        self._study.storage.episodes.add(self._study.episodes_key, self._buffer)
        self._buffer = []  # after the write: rows that are written twice replace themselves, lost ones stay lost
        self._flushed_at = time.monotonic()
