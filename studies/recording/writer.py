"""Writes what is heard of running trials: to the storage or, when that stays away, what has ended to a local file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.database.fencing import LeaseLostError, fenced
from studies.database.retries import StorageAwayError
from studies.recording.intermediate_values import IntermediateValues
from studies.recording.spool import EndedTrial, Report, Spool
from studies.recording.trial_states import resume
from studies.statistics.values import iqm

if TYPE_CHECKING:
    from studies.coordination.lease_manager import LeaseManager
    from studies.database.records import EpisodeRecord
    from studies.recording.trial_endings import TrialEnding
    from studies.spec.spaces import Json
    from studies.study.study import OpenStudy

log = logging.getLogger(__name__)

_T = TypeVar("_T")

FLUSH_ROWS = 5_000
FLUSH_SECONDS = 1.0


class Writer:
    """Writes the trials that one process runs.

    Args:
        study: Their study.
        leases: What this process holds of it.
    """

    def __init__(self, study: OpenStudy, leases: LeaseManager) -> None:
        self._study, self._leases = study, leases
        self._retry_policy = study.storage.retry_policy
        self._episodes = study.storage.episodes
        self._intermediate = IntermediateValues(study)
        self._buffer: list[tuple[int, EpisodeRecord]] = []
        self._flushed_at = time.monotonic()
        self._told: set[int] = set()  # trials of which there may be episodes that they tell again
        self._spool = Spool(study.storage.url, study.episodes_key)
        self._missed: dict[int, dict[int, Report]] = {}

    @property
    def is_cut_off(self) -> bool:
        """Whether the storage stayed away for longer than anybody waits."""
        return self._retry_policy.is_over

    @property
    def spool_path(self) -> Path | None:
        """The file with what the storage does not know of yet; None if it knows of everything."""
        path = self._spool.path
        return path if path is not None and path.exists() else None

    def begin(self, trial: Trial, *, again: bool) -> None:
        """A trial begins, or goes on."""
        self._intermediate.begin(trial)
        if again:
            self._told.add(trial.number)

    def started(self, trial: Trial, configuration: Mapping[str, Json]) -> None:
        """Keeps what is needed to run a trial again. Of one that goes on, the episodes are forgotten."""
        if self.is_cut_off:
            return
        if trial.number in self._told:
            self.flush()
            with fenced(self._leases.fence((trial.number,))):
                self._episodes.delete(self._study.episodes_key, trial.number)
            self._intermediate.begin(trial)
        self._told.add(trial.number)  # its process may die, and another one go on with it
        trial.set_user_attr("configuration", dict(configuration))

    def episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Takes episodes, which are written in batches."""
        self._buffer.extend((number, record) for record in records)
        if len(self._buffer) >= FLUSH_ROWS or time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes the episodes that are waiting, but for those of trials that another process has taken."""
        while self._buffer and not self.is_cut_off:
            try:
                with fenced(self._leases.fence({number for number, _ in self._buffer})):
                    self._episodes.add(self._study.episodes_key, self._buffer)
            except LeaseLostError as error:
                self._buffer = [each for each in self._buffer if each[0] not in error.numbers]
            else:
                self._buffer = []  # after the write: rows that are written twice replace themselves
        self._flushed_at = time.monotonic()

    def report(self, trial: Trial, env_steps: int, seed_values: Mapping[int, float], *, by_seed: bool) -> bool:
        """Keeps the interquartile mean over seeds; returns whether it was kept.

        Args:
            trial: The trial.
            env_steps: Environment steps that each seed has taken.
            seed_values: Seed -> value.
            by_seed: Whether the values of seeds are kept too, where the pruner asks for them.
        """
        value = float(iqm(list(seed_values.values())))

        def write() -> bool:
            kept = self._intermediate.keep(trial, env_steps, value)
            if kept and by_seed:
                self._intermediate.keep_seeds(trial, env_steps, seed_values)
            return kept

        return self._written(write, lambda: self._miss(trial.number, env_steps, value, seed_values)) or False

    def last_report(self, trial: Trial, env_steps: int, value: float) -> None:
        """Keeps the value of a trial that ends, if it is a number, unless there is one of this step."""
        self._written(
            lambda: self._intermediate.keep(trial, env_steps, value, always=True),
            lambda: self._miss(trial.number, env_steps, value, {}),
        )

    def _written(self, write: Callable[[], _T], otherwise: Callable[[], None]) -> _T | None:
        """Writes to the storage; where that is away, or goes away now, does what is to be done otherwise."""
        if self.is_cut_off:
            otherwise()
            return None
        try:
            return write()
        except StorageAwayError:
            otherwise()
            raise

    def _miss(self, number: int, env_steps: int, value: float, seed_values: Mapping[int, float]) -> None:
        self._missed.setdefault(number, {})[env_steps] = (value, dict(seed_values))

    def end(self, trial: Trial, ending: TrialEnding) -> None:
        """Ends a trial, in the storage or in a file until that is back."""

        def write() -> None:
            self.flush()
            self._write_ending(trial, ending)

        self._written(write, lambda: self._keep(trial.number, ending))

    def _write_ending(self, trial: Trial, ending: TrialEnding) -> None:
        for key, attr in ending.attrs.items():
            trial.set_user_attr(key, attr)
        self._study.study.tell(trial, ending.value, state=ending.state)

    def _keep(self, number: int, ending: TrialEnding) -> None:
        episodes = [record for each, record in self._buffer if each == number]
        reports = self._missed.get(number, {})
        epoch = self._leases.epoch(number)
        self._spool.keep(EndedTrial(number=number, ending=ending, reports=reports, episodes=episodes, epoch=epoch))

    def forget(self, number: int) -> None:
        """A trial is not run here any more."""
        self._intermediate.end(number)

    def drop(self, number: int) -> None:
        """A trial is another process's now: nothing more of it is written."""
        self._buffer = [(each, record) for each, record in self._buffer if each != number]
        self.forget(number)

    def catch_up(self) -> None:
        """Writes what an earlier run could not, and keeps what still cannot be: another process may hold its trial.

        Call it while planning.
        """
        if self.spool_path is None:
            return
        by_number = {trial.number: trial for trial in self._study.all_trials()}
        epochs = self._study.storage.leases.epochs(self._study.episodes_key)
        for kept in self._spool.read():
            frozen = by_number.get(kept.number)
            if frozen is None or frozen.state.is_finished() or not self._is_newest(kept, epochs):
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
        """Takes a trial that has ended without its storage being told; None while another process holds it."""
        if self._leases.acquire(frozen.number) is not None:
            return None
        if frozen.state == TrialState.WAITING and not resume(self._study.study, frozen):
            return None
        return Trial(self._study.study, frozen._trial_id)

    def _is_newest(self, kept: EndedTrial, epochs: Mapping[int, int]) -> bool:
        """Returns whether no process has begun a trial again since it was kept."""
        if kept.epoch is None or epochs.get(kept.number, kept.epoch) == kept.epoch:
            return True
        log.warning(
            "Trial %d was begun again by another process: what %s has of it is not recorded.",
            kept.number, self._spool.path,
        )  # fmt: skip
        return False

    def _write_kept(self, trial: Trial, kept: EndedTrial) -> None:
        self._intermediate.begin(trial)
        with fenced(self._leases.fence((kept.number,))):
            self._episodes.add(self._study.episodes_key, [(kept.number, record) for record in kept.episodes])
        for env_steps, (value, seed_values) in kept.reports.items():
            if self._intermediate.keep(trial, env_steps, value, always=kept.ending.state == TrialState.PRUNED):
                self._intermediate.keep_seeds(trial, env_steps, seed_values)
        self._write_ending(trial, kept.ending)
        self._intermediate.end(kept.number)
