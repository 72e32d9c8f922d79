"""Callback that stops a training once its mean return reaches a criterion."""

from __future__ import annotations

from agents.callbacks.callback import Callback
from agents.training.criterion import Criterion


class StopAtReturn(Criterion, Callback):
    """Stop a run once the mean return of its last `trial_count` episodes reaches `criterion`.

    Args:
        criterion: The mean return.
        trial_count: Number of episodes in the mean, at least 1. Defaults to 100.

    Raises:
        ConfigurationError: `trial_count` is below one.
    """
