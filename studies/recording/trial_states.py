"""How trials begin, wait and go on: states of Optuna's, without its queue.

What runs is marked as ours (`HELD_ATTR`), so that a trial that another Optuna program runs is never taken for one whose
process is gone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from studies.spec.attributes import HELD_ATTR, is_run_by_others

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

    from studies.coordination.lease_manager import LeaseManager
    from studies.spec.spaces import Json


def requeue_abandoned(study: optuna.Study, leases: LeaseManager) -> None:
    """Lets those trials wait, to go on later where they were, whose process is gone. Call it while planning."""
    # In this order: who ends a trial gives it back after that, and nobody begins one while this process plans.
    held = leases.held_by_others()
    for trial in study.get_trials(deepcopy=False):
        is_ours = trial.state == TrialState.RUNNING and not is_run_by_others(trial)
        if is_ours and trial.number not in held and not leases.holds(trial.number):
            requeue(study, trial._trial_id)


def requeue(study: optuna.Study, trial_id: int) -> None:
    """Lets a trial that runs wait, to go on later where it was."""
    study._storage.set_trial_state_values(trial_id, TrialState.WAITING)
    study._storage.set_trial_system_attr(trial_id, HELD_ATTR, False)


def resume(study: optuna.Study, trial: FrozenTrial) -> bool:
    """Lets a trial that waits run again, under its own number; returns whether nobody else was faster."""
    study._storage.set_trial_system_attr(trial._trial_id, HELD_ATTR, True)
    if study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
        return True
    study._storage.set_trial_system_attr(trial._trial_id, HELD_ATTR, False)  # another program runs it
    return False


def begin(study: optuna.Study, row: Mapping[str, Json]) -> FrozenTrial:
    """Begins a new trial, with the parameters that are planned for it; see `with_parameters`."""
    planned = {"fixed_params": dict(row)} if row else {}
    return created(study, create_trial(state=TrialState.RUNNING, system_attrs={HELD_ATTR: True, **planned}))


def created(study: optuna.Study, template: FrozenTrial) -> FrozenTrial:
    """Returns a new trial that begins as the template says.

    Optuna's `ask` would take up whatever waits in its queue first, also what waits to go on.
    """
    return study._storage.get_trial(study._storage.create_new_trial(study._study_id, template))


def with_parameters(study: optuna.Study, frozen: FrozenTrial, wanted: Mapping[str, BaseDistribution]) -> Trial:
    """Returns a trial that runs with every parameter that it sets.

    Samplers may take long: call it while the trial is held, and not while planning.

    Args:
        study: Its study.
        frozen: The trial.
        wanted: What it sets. The sampler proposes what is not planned, and what is not set yet: a process may have died
            between the first and the last of the parameters.
    """
    study._thread_local.cached_all_trials = None  # as `ask` does: samplers look at all trials anew
    trial = Trial(study, frozen._trial_id)
    with warnings.catch_warnings():
        # A grid's computed last point may miss the range's end by a rounding error; `settle` has judged it.
        warnings.filterwarnings("ignore", message="Fixed parameter")
        drawn = frozen.params.keys() if wanted.keys() - frozen.params.keys() else ()
        for name, distribution in wanted.items():
            if name in drawn and name not in frozen.system_attrs.get("fixed_params", {}):
                _draw_again(study, trial, name, distribution)
            trial._suggest(name, distribution)
    return trial


def _draw_again(study: optuna.Study, trial: Trial, name: str, distribution: BaseDistribution) -> None:
    """Draws what was drawn for a parameter that is set already, so that those after it get their own random numbers."""
    if name not in trial.relative_params and not distribution.single():
        study.sampler.sample_independent(study, trial._get_latest_trial(), name, distribution)
