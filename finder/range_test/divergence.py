"""When has the learning rate of a range test become too high to go on? A loss or returns that have left for good."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_DIVERGED = 2.0
"""How many times its scale a loss may leave the range that it had a decade of rates before."""

_AVERAGED = 10
"""Gradient steps over which a loss is averaged: a single minibatch is no divergence."""

_LEAST = 1e-8
"""Smallest range of a loss; rounding alone moves less."""

_OWN_DOING = 0.1
"""Share of a loss's rise by which a gradient step has to raise it on its own minibatch, on average."""


class DivergenceGuard:
    """Detects that a loss has left, for good, what learning at an ordinary rate could bring it to.

    A loss is compared with the range that it had while the rate was about ten times smaller. That range alone is no
    measure: the loss of an actor is minus a value, which is near 0 in new networks and may rise or fall a thousand
    times as far while it is learned, and errors grow with the values that they are errors of. So a loss has diverged in
    one of two cases:

    - Gradient steps raise it themselves. A step at an ordinary rate lowers the loss of its own minibatch, whatever else
      makes losses rise: new data, new targets, another network that learns. Where steps on average raise it, by a share
      of the rise of the loss since the rate was ten times smaller (a rise by more than the range that it had then), the
      rate is too high.
    - It has left that range by more than the range, and by more than the largest value that the rewards seen so far
      allow (`RewardScale`), whatever the steps did. Downwards counts too: a critic that overestimates without limit
      draws the actor's loss below zero.

    Args:
        delay: Gradient steps in which the rate grows about tenfold, >= 1.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._recent: deque[float] = deque(maxlen=delay + _AVERAGED)
        self._former: deque[float] = deque(maxlen=delay)  # the losses before those of the last `delay` steps
        self._rises: deque[float] = deque(maxlen=_AVERAGED)
        self._low, self._high = math.inf, -math.inf  # of all losses before those of the last `delay` steps

    def diverged(self, loss: float, largest_value: float, rise: float = math.nan) -> bool:
        """Take the loss of the next gradient step.

        Args:
            loss: The loss, finite.
            largest_value: The largest value that the rewards allow, >= 0; see `RewardScale`.
            rise: By how much the step raised the loss of its own minibatch; below 0 where it lowered it. Defaults to
                NaN: not known.
        """
        self._recent.append(loss)
        self._rises.append(rise)
        if len(self._recent) > self._delay:
            past = self._recent[-1 - self._delay]
            self._former.append(past)
            self._low, self._high = min(self._low, past), max(self._high, past)
        if len(self._recent) < self._delay + _AVERAGED:
            return False
        newest = [self._recent[-1 - k] for k in range(_AVERAGED)]
        mean = math.fsum(newest) / _AVERAGED
        reach = _DIVERGED * max(self._high - self._low, largest_value)
        return self._raised_by_steps(mean) or mean > self._high + reach or mean < self._low - reach

    def _raised_by_steps(self, mean: float) -> bool:
        """Return whether the loss has risen since the rate was ten times smaller, raised by the gradient steps."""
        rises = [rise for rise in self._rises if not math.isnan(rise)]
        if not rises:
            return False
        risen = mean - math.fsum(self._former) / len(self._former)
        usual = max(max(self._former) - min(self._former), _LEAST)
        return risen > usual and sum(rises) / len(rises) > _OWN_DOING * risen


class RewardScale:
    """Measures how large values can be at most: the largest reward so far, at every step of the discount's horizon.

    Args:
        gamma: Discount, in [0, 1]; at 1 an episode is taken to be as long as all steps so far.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._largest = 1.0  # terms beside rewards, such as the entropy's, are of this size where rewards are small
        self._n_steps = 0

    def see(self, rewards: Array) -> None:
        """Take the rewards of one step of all copies of the environment, [N]."""
        self._n_steps += 1
        self._largest = max(self._largest, float(np.abs(rewards).max()))

    @property
    def largest_value(self) -> float:
        """Bound of the discounted sum of rewards."""
        return self._largest * (1.0 / (1.0 - self._gamma) if self._gamma < 1.0 else max(1, self._n_steps))


def delay_of(start_lr: float, end_lr: float, n_increases: int) -> int:
    """Return in how many increases a rate grows about tenfold: at least 10, at most a third of them all."""
    decades = math.log10(end_lr / start_lr)
    return max(10, min(math.ceil(n_increases / decades), n_increases // 3))


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
        """Take the mean return at the next rate."""
        self._returns.append(mean_return)
        if len(self._returns) < 2 * self._WINDOW:
            return False
        first = self._returns[: self._WINDOW]
        began, spread = float(np.mean(first)), max(float(np.std(first)), 1e-8)
        now = float(np.mean(self._returns[-self._WINDOW :]))
        self._best = max(self._best, now)
        return self._best - began > 3 * spread and now <= began
