"""Writer of the events of running trials: to the storage or, during a long outage, to a local spool file."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from studies.database.fencing import LeaseLostError, fenced
from studies.database.retries import StorageAwayError
from studies.errors import StudyError
from studies.queue.trial_states import resume
from studies.recording.intermediate_values import IntermediateValues
from studies.recording.spool import EndedTrial, Report, Spool
from studies.spec.attributes import PROMOTED_ATTR, objective_seeds
from studies.statistics.values import mean_of_seeds

if TYPE_CHECKING:
    from studies.coordination.lease_manager import LeaseManager
    from studies.database.records import EpisodeRecord
    from studies.queue.trial_endings import TrialEnding
    from studies.spaces.spaces import Json
    from studies.study.study import OpenStudy

log = logging.getLogger(__name__)

_T = TypeVar("_T")

FLUSH_ROWS = 5_000
"""Number of buffered episodes that are written at once."""

FLUSH_SECONDS = 1.0
"""Seconds after which buffered episodes are written with the next event."""

MOST_FENCED = 300
"""Number of trials whose episodes are written in one call: their leases go with it, and gRPC limits headers to 8 KB."""


class Writer:
    """Writer of the trials that one process runs.

    Args:
        study: The study.
        leases: Leases of this process.
    """

    def __init__(self, study: OpenStudy, leases: LeaseManager) -> None:
        self._study, self._leases = study, leases
        self._retry_policy = study.storage.retry_policy
        self._episodes = study.storage.episodes
        self._intermediate = IntermediateValues(study, leases)
        self._buffer: list[tuple[int, EpisodeRecord]] = []
        self._flushed_at = time.monotonic()
        self._with_episodes: set[int] = set()  # trials with possible earlier episodes, which they will send again
        self._spool = Spool(study.storage.url, study.episodes_key)
        self._unwritten_reports: dict[int, dict[int, Report]] = {}

    @property
    def is_cut_off(self) -> bool:
        """Return whether the storage has been unreachable for longer than calls are retried."""
        return self._retry_policy.is_over

    @property
    def spool_path(self) -> Path | None:
        """File with the events that could not be written; None if there are none."""
        path = self._spool.path
        return path if path is not None and path.exists() else None

    def start(self, trial: Trial, *, resumed: bool) -> None:
        """Record the start of a trial."""
        self._intermediate.start(trial)
        if resumed:
            self._with_episodes.add(trial.number)

    def started(self, trial: Trial, configuration: Mapping[str, Json]) -> None:
        """Store the configuration of a trial. The episodes of a resumed trial are deleted."""
        if self.is_cut_off:
            return
        if trial.number in self._with_episodes:
            self.flush()
            with fenced(self._leases.fence((trial.number,))):
                self._episodes.delete(self._study.episodes_key, trial.number)
            self._intermediate.start(trial)
        self._with_episodes.add(trial.number)  # its process may die, and another one resume it
        trial.set_user_attr("configuration", dict(configuration))

    def episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Buffer episodes, which are written in batches."""
        self._buffer.extend((number, record.as_python()) for record in records)
        if len(self._buffer) >= FLUSH_ROWS or time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered episodes, except for those of trials that another process has taken over."""
        while self._buffer and not self.is_cut_off:
            numbers = set(itertools.islice(dict.fromkeys(number for number, _ in self._buffer), MOST_FENCED))
            try:
                with fenced(self._leases.fence(numbers)):
                    self._episodes.add(self._study.episodes_key, [each for each in self._buffer if each[0] in numbers])
            except LeaseLostError as error:
                numbers = set(error.numbers) or numbers
            # After the write: rows that are written twice replace each other.
            self._buffer = [each for each in self._buffer if each[0] not in numbers]
        self._flushed_at = time.monotonic()

    def report(
        self,
        trials: Sequence[Trial],
        env_steps: int,
        values: Mapping[int, Mapping[int, float]],
        unless_lost: Callable[[Trial], AbstractContextManager[None]],
    ) -> list[Trial]:
        """Store the means over seeds of trials, together; return the trials whose values were stored.

        Args:
            trials: Trials.
            env_steps: Environment steps that each seed has taken.
            values: Number of a trial -> seed -> value.
            unless_lost: Drops a trial if a write to it is rejected.
        """
        stored = []
        for begin in range(0, len(trials), MOST_FENCED):
            part = trials[begin : begin + MOST_FENCED]
            try:
                stored += self._report(part, env_steps, values)
            except (LeaseLostError, UpdateFinishedTrialError):  # of one of them, and none is stored
                for trial in part:
                    with unless_lost(trial):
                        stored += self._report([trial], env_steps, values)
        return stored

    def _report(
        self, trials: Sequence[Trial], env_steps: int, values: Mapping[int, Mapping[int, float]]
    ) -> list[Trial]:
        means = [(trial, _mean(values[trial.number])) for trial in trials]

        def spool() -> None:
            for trial, value in means:
                self._spool_report(trial.number, env_steps, value, values[trial.number])

        return self._write_or(lambda: self._intermediate.record(env_steps, means), spool) or []

    def report_seeds(self, trial: Trial, env_steps: int, seed_values: Mapping[int, float]) -> None:
        """Store the values of single seeds of a trial after those of all trials, if the scheduler requires them."""
        self._write_or(
            lambda: self._intermediate.record_seeds(trial, env_steps, seed_values),
            lambda: self._spool_report(trial.number, env_steps, _mean(seed_values), seed_values),
        )

    def has_passed(self, number: int, env_steps: int) -> bool:
        """Return whether a resumed trial has passed this step before it was interrupted."""
        return self._intermediate.has_passed(number, env_steps)

    def attrs(self, trial: Trial, attrs: Mapping[str, Json]) -> None:
        """Store attributes of a running trial. During an outage nothing is stored: the end of the trial has them."""

        def write() -> None:
            with fenced(self._leases.fence((trial.number,))):
                self._study.storage.trial_writes.set_user_attrs(trial._trial_id, attrs)

        self._write_or(write, lambda: None)

    def last_report(self, trial: Trial, env_steps: int, value: float) -> None:
        """Store the last value of a trial, if it is finite and there is none at this step."""
        self._write_or(
            lambda: self._intermediate.record(env_steps, [(trial, value)], always=True),
            lambda: self._spool_report(trial.number, env_steps, value, {}),
        )

    def promoted(self, trial: Trial, env_steps: int) -> None:
        """Store that a trial was promoted at its report after these environment steps."""
        if not self.is_cut_off:
            with fenced(self._leases.fence((trial.number,))):
                trial.set_user_attr(PROMOTED_ATTR, int(env_steps))

    def waits(self, trial: Trial, attrs: Mapping[str, Json]) -> None:
        """Store the attributes of a trial that was paused or stopped. During an outage it reaches that step again."""
        if not self.is_cut_off:
            self.flush()
            with fenced(self._leases.fence((trial.number,))):
                self._study.storage.trial_writes.set_user_attrs(trial._trial_id, attrs)

    def _write_or(self, write: Callable[[], _T], fallback: Callable[[], None]) -> _T | None:
        """Write to the storage, or use the fallback during an outage or at Ctrl-C, after which nothing is written."""
        if self.is_cut_off:
            fallback()
            return None
        try:
            return write()
        except (StorageAwayError, KeyboardInterrupt):
            fallback()
            raise

    def _spool_report(self, number: int, env_steps: int, value: float, seed_values: Mapping[int, float]) -> None:
        self._unwritten_reports.setdefault(number, {})[env_steps] = (value, dict(seed_values))

    def end(self, trial: Trial, ending: TrialEnding) -> None:
        """Store the ending of a trial, or spool it during an outage."""

        def write() -> None:
            self.flush()
            self._write_ending(trial, ending)

        self._write_or(write, lambda: self._keep(trial.number, ending))

    def _write_ending(self, trial: Trial, ending: TrialEnding) -> None:
        with fenced(self._leases.fence((trial.number,))):
            self._study.storage.trial_writes.set_user_attrs(trial._trial_id, ending.attrs)
        self._study.study.tell(trial, self._values(ending), state=ending.state)

    def _values(self, ending: TrialEnding) -> float | list[float] | None:
        """Return the value of an ending, or that of each objective of the study."""
        names = self._study.spec.metrics
        if ending.value is None or not names:
            return ending.value
        by_name = objective_seeds(ending.attrs)
        if missing := [name for name in names if not by_name.get(name)]:
            raise StudyError(
                f"the study {self._study.name!r} has the objectives {', '.join(names)}, and a complete trial has no "
                f"values of {missing[0]!r}: pass extra={{'objectives': {{metric: {{seed: value}}}}}} with all of them."
            )
        return [_mean(by_name[name]) for name in names]

    def _keep(self, number: int, ending: TrialEnding) -> None:
        episodes = [record for each, record in self._buffer if each == number]
        reports = self._unwritten_reports.get(number, {})
        epoch = self._leases.epoch(number)
        self._spool.keep(EndedTrial(number=number, ending=ending, reports=reports, episodes=episodes, epoch=epoch))

    def forget(self, number: int) -> None:
        """Stop tracking a trial."""
        self._intermediate.end(number)

    def drop(self, number: int) -> None:
        """Discard the events of a trial that another process has taken over."""
        self._buffer = [(each, record) for each, record in self._buffer if each != number]
        self.forget(number)

    def catch_up(self) -> None:
        """Write spooled trials, and keep those whose leases other processes hold.

        Requires the planning lease.
        """
        if self.spool_path is None:
            return
        by_number = {trial.number: trial for trial in self._study.all_trials()}
        epochs = self._study.storage.leases.epochs(self._study.episodes_key)
        for kept in self._spool.read():
            frozen = by_number.get(kept.number)
            if frozen is None or frozen.state.is_finished() or not self._is_newest(kept, frozen, epochs):
                self._spool.change(kept.number)
                continue
            if (trial := self._resume(frozen)) is None:
                continue
            self._spool.change(kept.number, replace(kept, epoch=self._leases.epoch(kept.number)))
            self._write_kept(trial, kept)
            self._spool.change(kept.number)
            self._leases.release(kept.number)
        self._spool.change(None)

    def _resume(self, frozen: FrozenTrial) -> Trial | None:
        """Acquire a trial that has ended without being stored; return None if another process holds or runs it."""
        if self._leases.acquire(frozen.number) is not None:
            return None
        if frozen.state == TrialState.WAITING and not resume(self._study.study, self._leases, frozen):
            return None
        return Trial(self._study.study, frozen._trial_id)

    def _is_newest(self, kept: EndedTrial, frozen: FrozenTrial, epochs: Mapping[int, int]) -> bool:
        """Return whether no process has restarted a trial since it was spooled.

        A process that requeued it has acquired its lease for that (`requeue_abandoned`), one that restarted it again.
        """
        if kept.epoch is None:
            return True
        n_acquired = epochs.get(kept.number, kept.epoch) - kept.epoch
        if n_acquired == 0 or (n_acquired == 1 and frozen.state == TrialState.WAITING):
            return True
        log.warning(
            "Trial %d was restarted by another process: its events in %s are discarded.",
            kept.number, self._spool.path,
        )  # fmt: skip
        return False

    def _write_kept(self, trial: Trial, kept: EndedTrial) -> None:
        self._intermediate.start(trial)
        with fenced(self._leases.fence((kept.number,))):
            self._episodes.add(self._study.episodes_key, [(kept.number, record) for record in kept.episodes])
        for env_steps, (value, seed_values) in kept.reports.items():
            always = kept.ending.state == TrialState.PRUNED
            if self._intermediate.record(env_steps, [(trial, value)], always=always):
                self._intermediate.record_seeds(trial, env_steps, seed_values)
        self._write_ending(trial, kept.ending)
        self._intermediate.end(kept.number)


def _mean(seed_values: Mapping[int, float]) -> float:
    return float(mean_of_seeds(list(seed_values.values())))
