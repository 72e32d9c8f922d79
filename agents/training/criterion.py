"""Criterion of mean return that stops a training."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from agents.errors import ConfigurationError, whole_number
from agents.training.listeners import Listener
from agents.training.records import Episode
from agents.training.training import Training


class Criterion(Listener):
    """Stop a run once the mean return of its last `trial_count` episodes reaches `criterion`.

    Raises:
        ConfigurationError: `criterion` is no finite number, or `trial_count` is below one.
    """

    def __init__(self, criterion: float, trial_count: int = 100) -> None:
        given: Any = criterion
        if isinstance(given, bool) or not isinstance(given, Real) or not math.isfinite(given):
            raise ConfigurationError(f"criterion is {criterion!r}: give the mean return to reach, a number.")
        self.criterion = float(criterion)
        self.trial_count = whole_number(1, "trial_count", trial_count) or 1

    def on_episode_end(self, trainer: Training, episode: Episode) -> None:
        """Stop the run of this episode if the criterion is met."""
        history = trainer.runs[episode.member].history
        if len(history.returns) >= self.trial_count and history.mean_return(self.trial_count) >= self.criterion:
            reason = f"mean return of the last {self.trial_count} episodes reached {self.criterion:g}"
            trainer.stop(reason, episode.member)
