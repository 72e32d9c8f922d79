"""What trials are marked with, beside what they tried and how they ended."""

from __future__ import annotations

from optuna.trial import FrozenTrial, TrialState

CONFIRMS_ATTR = "confirms"
"""Number of the trial that this one ran again on further seeds (`studies.confirmation`)."""

RUNG_ATTR = "values at rungs"
"""Environment steps of a rung -> seed -> value there; kept where a pruner judges by single seeds (`studies.rungs`)."""

DIVERGED_ATTR = "diverged"
"""True on a trial that failed because of what it tried, such as a learning rate that is too high."""

REASON_ATTR = "reason"
"""Why a trial was pruned or failed, a sentence for people."""

TRACEBACK_ATTR = "traceback"
"""Where a failed trial raised: the end of the traceback."""


def is_confirmation(trial: FrozenTrial) -> bool:
    """Returns whether a trial only ran another one again, on seeds that took no part in choosing it."""
    return CONFIRMS_ATTR in trial.user_attrs


def is_interrupted(trial: FrozenTrial) -> bool:
    """Returns whether a trial had begun when it was stopped from outside: it waits to go on."""
    return trial.state == TrialState.WAITING and trial.datetime_start is not None


def is_open(trial: FrozenTrial) -> bool:
    """Returns whether a trial has begun and not ended: it runs, or waits to go on."""
    return trial.state == TrialState.RUNNING or is_interrupted(trial)


def has_diverged(trial: FrozenTrial) -> bool:
    """Returns whether a trial failed because of what it tried, so that it would fail again."""
    return trial.state == TrialState.FAIL and bool(trial.user_attrs.get(DIVERGED_ATTR))


def seed_values(trial: FrozenTrial) -> dict[int, float]:
    """Returns each seed's value of a trial, {} if they were not recorded."""
    return {int(seed): float(value) for seed, value in trial.user_attrs.get("seed_values", {}).items()}
