"""Attributes of trials beside parameters, values and states, and predicates over them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from optuna.trial import FrozenTrial, TrialState

CONFIRMS_ATTR = "confirms"
"""Number of the trial that a trial confirms on further seeds (`studies.judging.confirmation`)."""

CONFIRM_STEPS_ATTR = "confirm_env_steps"
"""Environment steps of each run of a trial that confirms another one in longer runs."""

NO_CANDIDATE = {"constraints": [1.0]}
"""Optuna system attributes of a trial that cannot be the best one.

Optuna leaves trials with a violated constraint out of `Study.best_trial` and `Study.best_trials`. The value is a list,
which every version of Optuna and optuna-dashboard can read.
"""

HELD_ATTR = "finder:held"
"""System attribute: true while a process of Finder runs a trial, from before its start until it waits or ends."""

TOKEN_ATTR = "finder:token"
"""System attribute: identifies a trial whose creation was not acknowledged by the storage."""

PAUSED_ATTR = "paused_at"
"""Environment steps at which a trial was paused the last time: it waits until it is promoted or the search ends."""

PROMOTED_ATTR = "promoted_from"
"""Environment steps of the last report after which a trial was promoted beyond its rung, at once or after a pause."""

RUNG_ATTR = "values at rungs"
"""Environment steps of a rung -> seed -> value; stored for schedulers that compare single seeds."""

STOPPED_ATTR = "stopped_at"
"""Last common report of finalists that a spent budget has stopped: its `env_steps`, and the `values` of each seed."""

DIVERGED_ATTR = "diverged"
"""True on a trial that failed because of its parameters, such as a learning rate that is too high."""

FAILURE_ATTR = "failure"
"""Kind of the failure of a failed trial, a `FailureKind`."""

FailureKind = Literal["diverged", "environment", "error", "hung", "killed", "abandoned"]
"""Kind of a failure:

- `diverged`: the loss or the outputs of a network became NaN or infinite because of the parameters.
- `environment`: an environment raised an error, or gave numbers that are not finite.
- `error`: the code of the agent, of a callback or of a training function raised an error, or there was no value.
- `hung`: a step of the environments or an update did not return in time.
- `killed`: its process was killed (for lack of memory, by a signal), or its machine was lost, again and again.
- `abandoned`: it was never run to its end, because it is not needed any more or another process runs it.

Only a divergence says something about the parameters of a trial. All other failures carry no information about them.
"""

LEARNED_ATTR = "learned"
"""False on a trial without an episode that ended after a gradient step: its value is that of the untrained agent."""

SCHEDULE_ATTR = "schedule"
"""Entries of the schedule of a member of population-based training (`studies.population_based.schedule`)."""

EXCHANGED_ATTR = "values at exchanges"
"""Environment steps at which members could copy each other -> value of the member in the interval before; null if it
diverged there."""

REASON_ATTR = "reason"
"""Reason why a trial was pruned or failed, a sentence for users."""

TRACEBACK_ATTR = "traceback"
"""End of the traceback of a failed trial."""


LIMITS_KEY = "env_limits"
"""Key of a trial's configuration: the environment's `max_episode_steps` and `reward_threshold`, each None if unset."""


def is_confirmation(trial: FrozenTrial) -> bool:
    """Return whether a trial confirms another one on further seeds."""
    return CONFIRMS_ATTR in trial.user_attrs


def is_run_by_others(trial: FrozenTrial) -> bool:
    """Return whether a trial is run by another Optuna program."""
    if trial.state != TrialState.RUNNING:
        return False
    held = trial.system_attrs.get(HELD_ATTR)
    if held is None:  # trials started by earlier versions
        return TOKEN_ATTR not in trial.system_attrs and "configuration" not in trial.user_attrs
    return not held


def exclusion_reason(trial: FrozenTrial, names: Collection[str]) -> str:
    """Return the reason why a trial is not part of the search of a study, "" if it is.

    Args:
        trial: Trial.
        names: Parameters that the study searches.
    """
    if is_run_by_others(trial):
        return "another Optuna program runs it"
    if unknown := sorted(set(trial.params).difference(names)):
        searched = ", ".join(sorted(names)) or "none"
        return f"it has the parameter {', '.join(unknown)}, which is not searched here (searched: {searched})"
    if trial.state != TrialState.COMPLETE:
        return ""
    if not all(map(math.isfinite, trial.values or ())):
        return "its value is not a finite number"
    was_run_here = HELD_ATTR in trial.system_attrs or "configuration" in trial.user_attrs
    if names and not trial.params and not was_run_here:
        return f"it has none of the parameters that are searched here ({', '.join(sorted(names))})"
    return ""


def is_interrupted(trial: FrozenTrial) -> bool:
    """Return whether a trial was interrupted and is waiting to be resumed."""
    return _was_started(trial) and not is_paused(trial)


def is_paused(trial: FrozenTrial) -> bool:
    """Return whether a trial was paused at a rung and has not been promoted since."""
    return _was_started(trial) and (trial.user_attrs.get(PAUSED_ATTR) or 0) > (trial.user_attrs.get(PROMOTED_ATTR) or 0)


def _was_started(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.WAITING and trial.datetime_start is not None


def state_word(trial: FrozenTrial) -> str:
    """Return the state of a trial for users: `paused` and `interrupted` trials are waiting ones for Optuna."""
    if is_paused(trial):
        return "paused"
    return "interrupted" if is_interrupted(trial) else _STATE_WORDS[trial.state]


_STATE_WORDS = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def is_open(trial: FrozenTrial) -> bool:
    """Return whether a trial was started and has not ended: it is running, paused, or waiting to be resumed."""
    return trial.state == TrialState.RUNNING or _was_started(trial)


def has_diverged(trial: FrozenTrial) -> bool:
    """Return whether a trial failed because of its parameters, so that it would fail again."""
    return failure_kind(trial) == "diverged"


def failure_kind(trial: FrozenTrial) -> FailureKind | None:
    """Return the kind of the failure of a trial; None if it has not failed.

    Trials of earlier versions have no recorded kind: it is derived from whether they diverged and from their reason.
    """
    if trial.state != TrialState.FAIL:
        return None
    recorded = trial.user_attrs.get(FAILURE_ATTR)
    for kind in get_args(FailureKind):
        if kind == recorded:
            return kind  # type: ignore[no-any-return]
    if trial.user_attrs.get(DIVERGED_ATTR):
        return "diverged"
    reason = str(trial.user_attrs.get(REASON_ATTR, ""))
    beginnings: dict[str, FailureKind] = {
        "HungError": "hung", "its process ": "killed", "abandoned ": "abandoned", "interrupted, ": "abandoned"
    }  # fmt: skip
    return next((kind for text, kind in beginnings.items() if reason.startswith(text)), "error")


def last_of(trial: FrozenTrial) -> tuple[int | None, float | None]:
    """Return the step at which a trial was pruned, and its value there; its last report and its value for others.

    A resumed trial may have later reports of its first run.
    """
    at = trial.user_attrs.get("pruned_at", trial.last_step)
    if at is None:
        return None, trial.value
    known = trial.state == TrialState.PRUNED
    return int(at), trial.intermediate_values.get(int(at), trial.value) if known else trial.value


def never_learned(trial: FrozenTrial) -> bool:
    """Return whether the value of a trial is that of an untrained agent, so that it carries no information."""
    return trial.user_attrs.get(LEARNED_ATTR) is False


OBJECTIVES_ATTR = "objectives"
"""Trial attribute, in studies with several objectives: name of a metric -> seed -> value."""


def objective_seeds(attributes: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """Return the values of the seeds for each objective, from the attributes of a trial; empty without several."""
    stored = attributes.get(OBJECTIVES_ATTR, {})
    return {name: {int(seed): float(value) for seed, value in own.items()} for name, own in stored.items()}


def stopped_values(trial: FrozenTrial) -> tuple[int, dict[int, float]] | None:
    """Return where a spent budget has stopped a confirmation that has not ended since, and the value of each seed."""
    stopped = trial.user_attrs.get(STOPPED_ATTR)
    if stopped is None or trial.state.is_finished():
        return None
    return int(stopped["env_steps"]), {int(seed): float(value) for seed, value in stopped["values"].items()}


def seed_values(trial: FrozenTrial) -> dict[int, float]:
    """Return the value of each seed of a trial, {} if they were not recorded."""
    return {int(seed): float(value) for seed, value in trial.user_attrs.get("seed_values", {}).items()}
