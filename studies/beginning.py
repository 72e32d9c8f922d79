"""How trials begin, wait and go on: states of Optuna's, without its queue."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

    from studies.claims import Claims
    from studies.spaces import Json


def put_back_abandoned(study: optuna.Study, claims: Claims) -> None:
    """Lets those trials wait, to go on later where they were, whose process is gone. Call it while planning."""
    # In this order: who ends a trial gives it back after that, and nobody begins one while this process plans.
    held = claims.held_by_others()
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.RUNNING and trial.number not in held and not claims.holds(trial.number):
            put_back(study, trial._trial_id)


def put_back(study: optuna.Study, trial_id: int) -> None:
    """Lets a trial that runs wait, to go on later where it was."""
    study._storage.set_trial_state_values(trial_id, TrialState.WAITING)


def take_up(study: optuna.Study, trial: FrozenTrial, wanted: Mapping[str, BaseDistribution]) -> Trial | None:
    """Lets a trial that waits run again, under its own number.

    Args:
        study: Its study.
        trial: The trial.
        wanted: What it sets: a process may have died between the first and the last of its parameters.

    Returns:
        The trial; None if somebody else was faster.
    """
    if not study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
        return None
    return _with_all(Trial(study, trial._trial_id), wanted)


def begin(study: optuna.Study, row: Mapping[str, Json], wanted: Mapping[str, BaseDistribution]) -> Trial:
    """Begins a new trial.

    Args:
        study: Its study.
        row: The parameters that are planned for it; the sampler proposes the others.
        wanted: All that it sets.
    """
    template = create_trial(state=TrialState.RUNNING, system_attrs={"fixed_params": dict(row)} if row else {})
    return _with_all(created(study, template), wanted)


def created(study: optuna.Study, template: FrozenTrial) -> Trial:
    """Returns a new trial that begins as the template says.

    Optuna's `ask` would take up whatever waits in its queue first, also what waits to go on.
    """
    study._thread_local.cached_all_trials = None  # as `ask` does: samplers look at all trials anew
    return Trial(study, study._storage.create_new_trial(study._study_id, template))


def _with_all(trial: Trial, wanted: Mapping[str, BaseDistribution]) -> Trial:
    """The trial with every parameter that it sets."""
    with warnings.catch_warnings():
        # A grid's computed last point may miss the range's end by a rounding error; `settle` has judged it.
        warnings.filterwarnings("ignore", message="Fixed parameter")
        for name, distribution in wanted.items():
            trial._suggest(name, distribution)
    return trial
