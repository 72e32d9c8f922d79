"""When has the learning rate of a range test become too high to go on? A loss or returns that have left for good."""

from __future__ import annotations

import math

import numpy as np

_DIVERGED = 4.0
"""How many times its usual range a smoothed loss may rise above its best before the test stops."""


class DivergenceGuard:
    """Says when a loss has left its usual range for good; also right for losses below zero.

    The loss is smoothed; its usual range is the distance between the largest and the smallest smoothed value up
    to its best one, and at least the spread of its first values.
    """

    _WARM_UP = 10

    def __init__(self) -> None:
        self._values: list[float] = []
        self._average = 0.0
        self._best = math.inf
        self._highest_before_best = -math.inf
        self._highest = -math.inf

    def diverged(self, loss: float) -> bool:
        """Takes the next loss."""
        self._values.append(loss)
        self._average = 0.9 * self._average + 0.1 * loss
        smoothed = self._average / (1 - 0.9 ** len(self._values))
        self._highest = max(self._highest, smoothed)
        if smoothed < self._best:
            self._best, self._highest_before_best = smoothed, self._highest
        if len(self._values) <= self._WARM_UP:
            return False
        spread = float(np.std(self._values[: self._WARM_UP]))
        usual = max(self._highest_before_best - self._best, spread, 1e-8)
        return smoothed > self._best + _DIVERGED * usual


class CollapseGuard:
    """Says when returns are back where they began, after they had clearly risen: what divergence looks like in them.

    Mean returns of a rate are averaged over ten rates; a rise is clear from three standard deviations of the first ten
    on. (Not over single episodes: of those that begin together, the short ones end first.)
    """

    _WINDOW = 10

    def __init__(self) -> None:
        self._returns: list[float] = []
        self._best = -math.inf

    def collapsed(self, mean_return: float) -> bool:
        """Takes the mean return at the next rate."""
        self._returns.append(mean_return)
        if len(self._returns) < 2 * self._WINDOW:
            return False
        first = self._returns[: self._WINDOW]
        began, spread = float(np.mean(first)), max(float(np.std(first)), 1e-8)
        now = float(np.mean(self._returns[-self._WINDOW :]))
        self._best = max(self._best, now)
        return self._best - began > 3 * spread and now <= began
