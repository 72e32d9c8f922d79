"""Queue of the remaining trials and confirmations of a study, shared by the processes that run it."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.coordination.lease_manager import STUDY, LeaseManager
from studies.database.fencing import LeaseLostError
from studies.errors import StudyError
from studies.queue.confirmation_queue import ConfirmationQueue
from studies.queue.proposals import suggest_parameters
from studies.queue.trial_source import TrialSource
from studies.queue.trial_states import StartedTrial, abandon, end_paused, requeue_abandoned
from studies.spec.attributes import exclusion_reason
from studies.study.budget_attributes import has_ended
from studies.study.study import OpenStudy, reloaded, with_longer_plan

if TYPE_CHECKING:
    from studies.spaces.spaces import Json

log = logging.getLogger(__name__)

_CONFIRMING = ("confirm", "confirm_seeds", "confirm_env_steps", "minutes", "total_env_steps")
"""Settings of a confirmation, and of when it begins."""

_POLICIES = ("pruner", "pruner_kwargs", "sampler", "sampler_kwargs")
"""Settings that the process that leads a study may change, and that a worker takes when it joins."""

_T = TypeVar("_T")

_Start = Callable[[list[FrozenTrial]], StartedTrial[FrozenTrial] | None]
"""Starts the next trial, given all trials; `None` if there is none."""

TakenTrial = StartedTrial[Trial]
"""Trial that this process runs from now on, with all its parameters set."""


class TrialQueue:
    """Queue of the remaining trials of a study. This process holds the lease of every trial that it returns.

    Args:
        study: The study.
        leases: Leases of this process.
        retry_failed: Whether trials that failed in an earlier run are retried or replaced.

    Attributes:
        keeps_budget: Whether this process keeps the budget of the whole search, and does not read its end from the
            study. Defaults to False.
        source: Source of the trials of the search; another one when the plan has grown.
    """

    def __init__(self, study: OpenStudy, leases: LeaseManager, *, retry_failed: bool) -> None:
        self._study, self._leases = study, leases
        self._ignored: set[int] = set()
        self.keeps_budget = False
        self._confirmations = ConfirmationQueue(study)

        def source() -> TrialSource:
            if not study.spec.confirm:
                self._confirmations.cancel_waiting()
            return TrialSource(study, retry_failed=retry_failed)

        self.source = self._planned(source)

    @contextlib.contextmanager
    def _planning(self) -> Iterator[list[FrozenTrial]]:
        """Hold the planning lease for the block, after requeueing the trials of dead processes.

        The block gets all trials: while it holds the lease, no other process starts or requeues one.
        """
        with self._leases.planning():
            trials = requeue_abandoned(self._study.study, self._leases)
            self._warn_of_ignored(trials)
            yield trials

    def _warn_of_ignored(self, trials: Sequence[FrozenTrial]) -> None:
        for trial in self._study.others_among(trials):
            if trial.number not in self._ignored:
                self._ignored.add(trial.number)
                reason = exclusion_reason(trial, self._study.spec.parameter_names)
                log.warning("Trial %d is left alone: %s.", trial.number, reason)

    def _planned(self, call: Callable[[], _T]) -> _T:
        """Return the result of an idempotent call made with the planning lease."""

        def planned() -> _T:
            with self._planning():
                return call()

        return self._leases.plan(planned)

    @property
    def n_left(self) -> int:
        """Number of trials of the search that are still to be started."""
        return 0 if self._is_over else self.source.n_left

    @property
    def _is_over(self) -> bool:
        """Return whether the process that keeps the budget of the search has none for further trials."""
        return not self.keeps_budget and has_ended(self._study)

    @property
    def is_led_elsewhere(self) -> bool:
        """Return whether another process leads the study and may extend its plan."""
        return STUDY in self._leases.leases_of_others()

    @property
    def leads(self) -> bool:
        """Return whether this process leads the study."""
        return self._leases.holds(STUDY)

    @property
    def share(self) -> int | None:
        """Maximum number of trials that a worker should take at a time; None for the leader.

        It is half of the worker's share of the remaining trials, so that later and faster workers get trials too.
        """
        if self.leads:
            return None
        n_workers = 1 + len(set(self._leases.leases_of_others().values()))
        return max(1, math.ceil(self.n_left / (2 * n_workers)))

    def is_confirmation(self, number: int) -> bool:
        """Return whether a trial of this queue is a confirmation."""
        return number in self._confirmations

    def params(self, trial: Trial) -> dict[str, Json]:
        """Return the parameters of a trial, fixed ones included."""
        return self.source.params(trial)

    def take(self, busy: Container[int] = ()) -> TakenTrial | None:
        """Return the next trial of the search; None if there is none.

        Args:
            busy: Numbers of trials that must not be started here.
        """
        return self._take(lambda trials: None if self._is_over else self.source.take(trials, busy))

    def take_confirmation(self) -> TakenTrial | None:
        """Return the next confirmation; None if there is none."""
        return self._take(lambda _: self._confirmations.start_next())

    def _take(self, start: _Start) -> TakenTrial | None:
        while True:
            started = self._start(start)
            if started is None:
                return None
            # Samplers may be slow: they run without the planning lease.
            with contextlib.suppress(LeaseLostError):
                return suggest_parameters(self._study.study, started)
            self._leases.release(started.trial.number)
            self.requeue(started.trial.number)

    def _start(self, start: _Start) -> StartedTrial[FrozenTrial] | None:
        while True:
            started = None
            try:
                with self._planning() as trials:
                    started = start(trials)
                    if started is None or self._leases.acquire(started.trial.number) is None:
                        return started
            except LeaseLostError as error:
                if started is not None and self._is_own_trial(started, error):
                    return started
            if started is not None:
                self.requeue(started.trial.number)

    def _is_own_trial(self, started: StartedTrial[FrozenTrial], error: LeaseLostError) -> bool:
        """Return whether this process runs a trial that it started while another one was planning."""
        number, storage = started.trial.number, self._study.study._storage
        if not self._leases.holds(number):
            return False
        if started.resumed and storage.get_trial(started.trial._trial_id).state == TrialState.RUNNING:
            return True
        if not started.resumed:  # the other process may have started the same row
            with contextlib.suppress(LeaseLostError):
                abandon(self._study.study, started.trial, f"abandoned at its start: {error}")
                if started.confirms is None:
                    self.source.restore(started.trial)
        self._leases.release(number)  # a resumed trial was requeued by the other process before its lease was acquired
        return False

    def requeue(self, number: int) -> None:
        """Record that a trial was requeued."""
        self._confirmations.requeue(number)

    def end_paused(self, *, is_over: bool) -> bool:
        """End all paused trials as pruned, unless one of them may still be promoted; return whether there were any.

        Args:
            is_over: Whether the search is over, whatever could still be run.
        """
        return self._planned(lambda: self._end_paused(is_over))

    def _end_paused(self, is_over: bool) -> bool:
        running = self._study.trials(TrialState.RUNNING)
        if running or not (is_over or self.n_left == 0):
            return False
        paused = self.source.paused
        for trial in paused:
            end_paused(self._study.study, trial, self._study.spec.pruner)
        return bool(paused)

    def to_confirm(self) -> list[int]:
        """Return the finalists whose confirmations are still to be started."""
        return [finalist.number for finalist, _ in self._planned(self._confirmations.pending)]

    def extend_plan(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Add trials to the plan, and return the extended study; failed trials are not retried."""
        grown: OpenStudy | None = None

        def planned() -> OpenStudy:
            nonlocal grown
            found = reloaded(self._study)
            if grown is None or found.spec.trials != grown.spec.trials:  # a repeated call may have succeeded before
                grown = with_longer_plan(found, rows)
            return grown

        self._use(self._leases.plan(planned))
        return self._study

    def refresh(self) -> OpenStudy:
        """Return the study with the plan and the confirmation that its storage holds now, and use them from now on.

        Raises:
            StudyError: The study was continued with another scheduler or sampler than this worker has.
        """
        found = self._planned(lambda: reloaded(self._study))
        own, now = ([getattr(spec, name) for name in _POLICIES] for spec in (self._study.spec, found.spec))
        if own != now and not self.leads:
            raise StudyError(
                f"the study {found.name!r} was continued with the scheduler {found.spec.pruner} and the sampler "
                f"{found.spec.sampler}, and this worker has others: start the worker again."
            )
        confirming = [[getattr(spec, name) for name in _CONFIRMING] for spec in (found.spec, self._study.spec)]
        if confirming[0] != confirming[1]:
            kept = {name: getattr(self._study.spec, name) for name in ("trials", "n_trials")}
            self._study = replace(self._study, spec=found.spec.model_copy(update=kept))
            self._confirmations.use(self._study)
        if (found.spec.plan(), found.spec.n_trials) != (self._study.spec.plan(), self._study.spec.n_trials):
            self._use(found)
        return self._study

    def _use(self, study: OpenStudy) -> None:
        self._study = study
        self.source = TrialSource(study, retried=self.source.retried)
        self._confirmations.use(study)
