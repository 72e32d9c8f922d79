"""A process that runs a study: its leases, its running trials, its queue, and what it may do next."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState

from studies.coordination.running_trials import RunningTrials
from studies.errors import StudyError
from studies.queue.trial_queue import TrialQueue
from studies.recording.exchanges import Exchanges
from studies.recording.failure_streak import FailureStreak
from studies.recording.rung_decisions import RungDecisions
from studies.recording.writer import Writer
from studies.spaces.spaces import Json, decode_params
from studies.spec.attributes import is_confirmation, is_open, is_run_by_others
from studies.study.study import OpenStudy, check_open


class RunningStudy:
    """State of a study in the process that runs it: its leases, its queue, its running trials and its storage.

    `Recorder`, which records the events of the trials, extends it. All methods are thread-safe.

    Args:
        study: A study from `open_study` or `join_study`.
        retry_failed: Whether trials that failed in an earlier run without diverging are retried, after those that were
            never tried, or replaced by others of the sampler. Defaults to `True`: the cause may have been fixed.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool = True) -> None:
        check_open(study)
        if study.leases is None:
            raise StudyError(f"the study {study.name!r} is open for reading only.")
        self._leases = study.leases
        self._lock = threading.RLock()
        self._study = study
        self._writer = Writer(study, study.leases)
        self._exchanges = Exchanges(study, self._writer)
        self._trials = RunningTrials(self._writer.drop)
        self._failures = FailureStreak()
        self._closed = False
        self.seconds = 0.0
        """Wall time in seconds spent in this recorder, the cost of recording."""
        self._leases.start_renewing()
        with self._exclusive():
            self._leases.plan(self._writer.catch_up)
            self.queue = TrialQueue(study, self._leases, retry_failed=retry_failed)
            """Queue of the trials that are still to be started; `Recorder.ask` starts them."""
        prunes = not study.spec.metrics  # no scheduler judges by several values
        self._rungs = RungDecisions(
            self._writer, self._trials, self.queue.is_confirmation, self._is_baseline, prunes=prunes
        )

    def _is_baseline(self, params: Mapping[str, Json]) -> bool:
        """Return whether the parameters of a trial, as Optuna stores them, are those of the baseline."""
        baseline, spec = self._study.spec.baseline, self._study.spec
        return baseline is not None and decode_params(params, spec.search_space()) == baseline

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Serialize public calls, and measure their time."""
        with self._lock:
            entered = time.perf_counter()
            try:
                for number in self._leases.pop_lost() & self._trials.running.keys():
                    self._trials.drop(number)
                yield
            finally:
                self.seconds += time.perf_counter() - entered

    def extend_plan(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Add trials to an explicit plan whose trials have all ended, and return the extended study.

        Failed trials are not retried.

        Raises:
            StudyError: If the study has no explicit plan, trials are running, or a row does not fit.
        """
        with self._exclusive():
            if running := sorted(self._trials.running):
                raise StudyError(f"trials {running} are running: the plan grows when they have ended.")
            self._study = self.queue.extend_plan(rows)
            return self._study

    def refresh(self) -> OpenStudy:
        """Return the study with the plan that its storage holds now, which another process may have extended."""
        with self._exclusive():
            self._study = self.queue.refresh()
            return self._study

    @property
    def study(self) -> OpenStudy:
        """The study, as it was when it was opened or refreshed last."""
        return self._study

    def is_judged(self, number: int) -> bool:
        """Return whether a running trial may be pruned: it is neither a confirmation nor the baseline."""
        trial = self._trials.running.get(number)
        return trial is not None and not (self.queue.is_confirmation(number) or self._is_baseline(trial.params))

    @property
    def stop_reason(self) -> str | None:
        """Reason to stop the study early: too many consecutive failures; None otherwise."""
        return self._failures.stop_reason

    @property
    def spool_path(self) -> Path | None:
        """File with the events that could not be written during an outage of the storage; None if there are none."""
        return self._writer.spool_path

    @property
    def is_cut_off(self) -> bool:
        """Return whether the storage has been unreachable for longer than calls are retried."""
        return self._writer.is_cut_off

    @property
    def open_trials(self) -> set[int]:
        """Numbers of the trials that were started and have not ended: running ones, and those waiting to be resumed."""
        return {trial.number for trial in self._study.all_trials() if is_open(trial)}

    @property
    def n_elsewhere(self) -> int:
        """Number of trials that other processes run, or were running when they were killed."""
        return len(self._elsewhere())

    @property
    def n_confirming_elsewhere(self) -> int:
        """Number of confirmations among `n_elsewhere`."""
        return sum(map(is_confirmation, self._elsewhere()))

    def _elsewhere(self) -> list[FrozenTrial]:
        running = [trial for trial in self._study.all_trials() if trial.state == TrialState.RUNNING]
        return [trial for trial in running if trial.number not in self._trials.running and not is_run_by_others(trial)]
