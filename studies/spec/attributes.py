"""What trials are marked with, beside what they tried and how they ended."""

from __future__ import annotations

from collections.abc import Collection

from optuna.trial import FrozenTrial, TrialState

CONFIRMS_ATTR = "confirms"
"""Number of the trial that this one ran again on further seeds (`studies.analysis.confirmation`)."""

NO_CANDIDATE = {"constraints": [1.0]}
"""Optuna system attributes of a trial that is no candidate for the best one.

A constraint that is violated is how Optuna leaves a trial out of `Study.best_trial` and `Study.best_trials`. It is
written as a list, which every version of Optuna reads and optuna-dashboard too.
"""

HELD_ATTR = "finder:held"
"""System attribute of a trial: true from before a process of ours runs it until it waits again or has ended."""

TOKEN_ATTR = "finder:token"
"""System attribute of a trial: what a trial is found by again, whose creation nobody confirmed."""

RUNG_ATTR = "values at rungs"
"""Environment steps of a rung -> seed -> value there; kept for pruners that judge single seeds."""

DIVERGED_ATTR = "diverged"
"""True on a trial that failed because of what it tried, such as a learning rate that is too high."""

LEARNED_ATTR = "learned"
"""False on a trial of which no episode ended after a gradient step: its value is that of the untrained agent."""

REASON_ATTR = "reason"
"""Why a trial was pruned or failed, a sentence for people."""

TRACEBACK_ATTR = "traceback"
"""Where a failed trial raised: the end of the traceback."""


LIMITS_KEY = "env_limits"
"""Key of a trial's configuration: the environment's `max_episode_steps` and `reward_threshold`, each None if unset."""


def is_confirmation(trial: FrozenTrial) -> bool:
    """Returns whether a trial only ran another one again, on further seeds."""
    return CONFIRMS_ATTR in trial.user_attrs


def is_run_by_others(trial: FrozenTrial) -> bool:
    """Returns whether another Optuna program runs a trial, which is none of ours."""
    if trial.state != TrialState.RUNNING:
        return False
    held = trial.system_attrs.get(HELD_ATTR)
    if held is None:  # as earlier versions began them
        return TOKEN_ATTR not in trial.system_attrs and "configuration" not in trial.user_attrs
    return not held


def why_not_ours(trial: FrozenTrial, names: Collection[str]) -> str:
    """Returns why a trial is none of a study's search, "" for one that is.

    Args:
        trial: The trial.
        names: The parameters that the study searches.
    """
    if is_run_by_others(trial):
        return "another Optuna program runs it"
    if unknown := sorted(set(trial.params).difference(names)):
        searched = ", ".join(sorted(names)) or "none"
        return f"it has the parameter {', '.join(unknown)}, which is not searched here (searched: {searched})"
    return ""


def is_interrupted(trial: FrozenTrial) -> bool:
    """Returns whether a trial had begun when it was stopped from outside: it waits to go on."""
    return trial.state == TrialState.WAITING and trial.datetime_start is not None


def is_open(trial: FrozenTrial) -> bool:
    """Returns whether a trial has begun and not ended: it runs, or waits to go on."""
    return trial.state == TrialState.RUNNING or is_interrupted(trial)


def has_diverged(trial: FrozenTrial) -> bool:
    """Returns whether a trial failed because of what it tried, so that it would fail again."""
    return trial.state == TrialState.FAIL and bool(trial.user_attrs.get(DIVERGED_ATTR))


def never_learned(trial: FrozenTrial) -> bool:
    """Returns whether a trial's value is that of an untrained agent, so that it says nothing of what was tried."""
    return trial.user_attrs.get(LEARNED_ATTR) is False


def seed_values(trial: FrozenTrial) -> dict[int, float]:
    """Returns each seed's value of a trial, {} if they were not recorded."""
    return {int(seed): float(value) for seed, value in trial.user_attrs.get("seed_values", {}).items()}
