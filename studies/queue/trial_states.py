"""Transitions of trials between states of Optuna, without Optuna's queue.

Running trials are marked with `HELD_ATTR`, so that a trial of another Optuna program is not taken for one whose process
has died.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from studies.queue.trial_endings import pruning
from studies.spec.attributes import (
    FAILURE_ATTR,
    HELD_ATTR,
    PAUSED_ATTR,
    PROMOTED_ATTR,
    REASON_ATTR,
    is_run_by_others,
)

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

    from studies.coordination.lease_manager import LeaseManager
    from studies.spaces.spaces import Json, Space


AnyTrial = TypeVar("AnyTrial", FrozenTrial, Trial)


class StartedTrial(NamedTuple, Generic[AnyTrial]):
    """Trial that is running from now on.

    Attributes:
        trial: The trial; a `FrozenTrial` until all its parameters are set (`suggest_parameters`).
        seeds: Seeds to train with.
        confirms: Number of the finalist that it confirms, None for a trial of the search.
        resumed: Whether it was resumed.
        distributions: Parameters that it sets, as far as they exist, each after those that it depends on.
        conditions: Conditional parameter -> values of others under which it exists. Defaults to none.
        promoted_from: Environment steps after which it was paused until now; None if it was not.
        spaces: Search space of the trials that a sampler proposes. Defaults to none, for planned trials.
        retried: Numbers of the failed trials whose configurations may be proposed again. Defaults to none.
    """

    trial: AnyTrial
    seeds: tuple[int, ...]
    confirms: int | None
    resumed: bool
    distributions: Mapping[str, BaseDistribution]
    conditions: Mapping[str, Mapping[str, tuple[Json, ...]]] = {}
    promoted_from: int | None = None
    spaces: Mapping[str, Space] = {}
    retried: Collection[int] = ()


def requeue_abandoned(study: optuna.Study, leases: LeaseManager) -> list[FrozenTrial]:
    """Requeue the trials of dead processes, and return all trials, not copied. Requires the planning lease.

    Their leases are acquired for it, and released: a process that was only disconnected cannot write to them any more.
    """
    # Order matters: processes release a lease after the trial has ended, and none starts a trial while this one plans.
    held = leases.leases_of_others()
    trials = study.get_trials(deepcopy=False)
    abandoned = [
        trial
        for trial in trials
        if trial.state == TrialState.RUNNING and not is_run_by_others(trial)
        if trial.number not in held and not leases.holds(trial.number)
    ]
    for trial in abandoned:
        if leases.acquire(trial.number) is not None:  # its process has renewed the lease meanwhile
            continue
        try:
            with contextlib.suppress(UpdateFinishedTrialError):  # its process has ended it meanwhile
                requeue(study, trial._trial_id)
        finally:
            leases.release(trial.number)
    return study.get_trials(deepcopy=False) if abandoned else trials


def requeue(study: optuna.Study, trial_id: int) -> None:
    """Requeue a running trial, to be resumed later."""
    study._storage.set_trial_state_values(trial_id, TrialState.WAITING)
    study._storage.set_trial_system_attr(trial_id, HELD_ATTR, False)


def resume(
    study: optuna.Study, leases: LeaseManager, trial: FrozenTrial, attrs: Mapping[str, Json] = MappingProxyType({})
) -> bool:
    """Resume a waiting trial under its own number; return whether no other process was faster.

    Its lease is acquired first: a process that is still requeueing it has not written everything before it releases it.

    Args:
        study: Optuna study.
        leases: Leases of this process, with that of the trial from now on.
        trial: Trial.
        attrs: Attributes to set before. Defaults to none.
    """
    if leases.acquire(trial.number) is not None:
        return False
    try:
        for name, value in attrs.items():
            study._storage.set_trial_user_attr(trial._trial_id, name, value)
        study._storage.set_trial_system_attr(trial._trial_id, HELD_ATTR, True)
        if study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
            return True
        study._storage.set_trial_system_attr(trial._trial_id, HELD_ATTR, False)  # another program runs it
    except BaseException:
        with contextlib.suppress(Exception):  # perhaps because of an outage
            leases.release(trial.number)
        raise
    leases.release(trial.number)
    return False


def promote(study: optuna.Study, leases: LeaseManager, trial: FrozenTrial) -> bool:
    """Resume a paused trial beyond its rung; see `resume`."""
    # In this order: a process that dies in between leaves a trial that is resumed.
    return resume(study, leases, trial, {PROMOTED_ATTR: trial.user_attrs[PAUSED_ATTR]})


def abandon(study: optuna.Study, trial: FrozenTrial, reason: str) -> None:
    """End a trial as failed that this process does not run."""
    study._storage.set_trial_user_attr(trial._trial_id, REASON_ATTR, reason)
    study._storage.set_trial_user_attr(trial._trial_id, FAILURE_ATTR, "abandoned")
    study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)


def end_paused(study: optuna.Study, trial: FrozenTrial, scheduler: str) -> None:
    """End a paused trial as pruned, with its last value. Requires the planning lease."""
    step = max(trial.intermediate_values)
    value = trial.intermediate_values[step]
    ending = pruning(scheduler, step, value)
    for name, each in ending.attrs.items():
        study._storage.set_trial_user_attr(trial._trial_id, name, each)
    study._storage.set_trial_state_values(trial._trial_id, ending.state, [value])


def start_trial(study: optuna.Study, row: Mapping[str, Json]) -> FrozenTrial:
    """Start a new trial with the planned parameters; see `suggest_parameters`."""
    planned = {"fixed_params": dict(row)} if row else {}
    return add_trial(study, create_trial(state=TrialState.RUNNING, system_attrs={HELD_ATTR: True, **planned}))


def add_trial(study: optuna.Study, template: FrozenTrial) -> FrozenTrial:
    """Create a trial from a template, and return it.

    Optuna's `ask` would first run the trials in its queue, including those that wait to be resumed.
    """
    return study._storage.get_trial(study._storage.create_new_trial(study._study_id, template))
