"""What trials are marked with, beside what they tried and how they ended."""

from __future__ import annotations

from optuna.trial import FrozenTrial

CONFIRMS_ATTR = "confirms"
"""Number of the trial that this one ran again on further seeds (`studies.confirmation`)."""


RUNG_ATTR = "values at rungs"
"""Environment steps of a rung -> seed -> value there; kept where a pruner judges by single seeds (`studies.rungs`)."""


def is_confirmation(trial: FrozenTrial) -> bool:
    """Returns whether a trial only ran another one again, on seeds that took no part in choosing it."""
    return CONFIRMS_ATTR in trial.user_attrs
