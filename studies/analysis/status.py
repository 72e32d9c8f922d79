"""Status of a study: ended, remaining and retried trials."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from studies.coordination.lease_manager import STUDY
from studies.coordination.owner import Owner
from studies.judging.confirmation import unconfirmed
from studies.spaces.plan import pending_rows
from studies.spaces.spaces import Json, encode
from studies.spec.attributes import has_diverged, is_paused, is_run_by_others
from studies.spec.scheduler_names import is_population_based

if TYPE_CHECKING:
    from studies.coordination.lease_manager import LeaseManager
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy

Row = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStatus:
    """Status of a study. Interrupted trials are waiting.

    Attributes:
        n_total: Trials of the whole study.
        n_ended: Trials that were completed, pruned or failed.
        n_running: Trials that are running, or were running when their process died.
        n_again: Those of the ended trials that failed, and that the next run retries or replaces (`retryable`).
        n_unconfirmed: Finalists that are still to be confirmed; 0 before the search is done.
        n_paused: Trials that are paused at a rung.
    """

    n_total: int
    n_ended: int
    n_running: int
    n_again: int
    n_unconfirmed: int = 0
    n_paused: int = 0

    @property
    def all_ended(self) -> bool:
        """Return whether every trial of the search has ended."""
        return self.n_ended >= self.n_total

    @property
    def complete(self) -> bool:
        """Return whether every trial has ended and every finalist is confirmed, so that the recommendation is final."""
        return self.all_ended and not self.n_unconfirmed


def study_status(study: OpenStudy) -> StudyStatus:
    """Return the status of a study. For a worker that retries no failures, `n_again` is 0."""
    search = status_of(study.spec, study.trials())
    if study.leases is not None and not retries_failures(study.leases):
        search = replace(search, n_again=0)
    return replace(search, n_unconfirmed=len(unconfirmed(study))) if search.complete else search


def status_of(spec: StudySpec, trials: Sequence[FrozenTrial]) -> StudyStatus:
    """Return the status of a search, from its spec and its trials."""
    running = [trial for trial in trials if trial.state == TrialState.RUNNING]
    waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
    n_paused = sum(map(is_paused, waiting))
    if not spec.plan():
        n_failed = len(retryable(spec, trials))
        n_others = len(trials) - n_failed
        n_total = max(spec.n_trials, n_others)
        n_again = min(n_failed, n_total - n_others)  # without those that were retried or replaced
        n_ended = n_others - len(running) - len(waiting) + n_again
        return StudyStatus(n_total=n_total, n_ended=n_ended, n_running=len(running), n_again=n_again, n_paused=n_paused)
    untried, again = rows_left(spec, trials)
    # Trials that a user queued in the dashboard are added to the plan.
    queued = len(pending_rows([planned_row(trial) for trial in waiting], _encoded_plan(spec)))
    n_total = len(spec.plan()) + queued
    n_open = len(untried) + len(waiting) + len(running)
    n_ended = max(0, n_total - n_open)
    return StudyStatus(n_total=n_total, n_ended=n_ended, n_running=len(running), n_again=len(again), n_paused=n_paused)


def abandoned_trials(study: OpenStudy) -> set[int]:
    """Return the running trials whose process has ended or no longer renews its leases: the next run resumes them."""
    before = _owned(study)
    running = {trial.number for trial in study.all_trials(TrialState.RUNNING) if not is_run_by_others(trial)}
    return running - before - _owned(study) if running else set()  # some may have ended, and others begun


def _owned(study: OpenStudy) -> set[int]:
    """Return the trials whose lease is held by a process that may be alive."""
    leases = study.storage.leases.held(study.episodes_key)
    return {number for number, own in leases.items() if own.seconds_left > 0 and not Owner.read(own.owner).is_dead}


def retryable(spec: StudySpec, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the failed trials that a later run of the study retries, or replaces by other proposals of its sampler.

    Diverged trials would diverge again. A population is not joined by new members after its training.
    """
    if is_population_based(spec.pruner):
        return []
    return [trial for trial in trials if trial.state == TrialState.FAIL and not has_diverged(trial)]


def retries_failures(leases: LeaseManager) -> bool:
    """Return whether a process retries trials that failed before: it leads its study, or no other process runs it."""
    return leases.holds(STUDY) or not leases.leases_of_others()


def rows_left(
    spec: StudySpec, trials: Sequence[FrozenTrial], retried: Collection[int] | None = None
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a plan, or the first trials of a sampler, that are still to run, as Optuna stores them.

    Args:
        spec: The study.
        trials: Its trials.
        retried: Numbers of the failed trials that may be retried. Defaults to None: all that are `retryable`.

    Returns:
        The rows that were never tried to their end, and the rows whose trials all failed and are retried; both in the
        order of the plan. Rows that are running, or waiting in Optuna's queue, are in neither.
    """
    again = {trial.number for trial in retryable(spec, trials) if retried is None or trial.number in retried}
    settled = [row for trial in trials if trial.number not in again and (row := planned_row(trial))]
    failed = [row for trial in trials if trial.number in again and (row := planned_row(trial))]
    left = pending_rows(_encoded_plan(spec) or _encoded(spec.first), settled)
    untried = pending_rows(left, failed)
    return untried, pending_rows(left, untried)


def planned_row(trial: FrozenTrial) -> Row:
    """Return the parameters with which a trial was enqueued, {} if a sampler proposed them."""
    return dict(trial.system_attrs.get("fixed_params", {}))


def _encoded_plan(spec: StudySpec) -> list[Row]:
    return _encoded(spec.plan())


def _encoded(rows: Sequence[Row]) -> list[Row]:
    return [{name: encode(value) for name, value in row.items()} for row in rows]
