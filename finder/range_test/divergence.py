"""Rules that detect divergence in a range test, from the losses or the returns."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_DIVERGED = 2.0
"""Multiple of its scale by which a loss may leave the range that it had at a rate a decade below."""

_AVERAGED = 10
"""Gradient steps over which a loss is averaged, so that a single minibatch is not divergence."""

_LEAST = 1e-8
"""Smallest range of a loss, above rounding errors."""

_OWN_DOING = 0.1
"""Share of a loss's rise by which a gradient step has to raise it on its own minibatch, on average."""


class DivergenceGuard:
    """Detects that a loss has diverged.

    A loss is compared with its range while the rate was about ten times smaller. The range alone is not enough: the
    loss of an actor is a negative value, which is near 0 for new networks and may change a thousandfold during
    learning, and errors grow with the predicted values. A loss has diverged in one of two cases:

    - Gradient steps raise the loss. A step at an ordinary rate lowers the loss of its minibatch, even if new data, new
      targets or another network raise losses. If steps raise it on average, by a share of the rise of the loss since
      the rate was ten times smaller (a rise by more than its range then), the rate is too high.
    - The loss has left the range by more than its width, and by more than the largest value that the rewards so far
      allow (`RewardScale`). This holds in both directions: a critic that overestimates without limit lowers the loss of
      the actor below zero.

    Args:
        delay: Gradient steps in which the rate grows about tenfold, >= 1.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._recent: deque[float] = deque(maxlen=delay + _AVERAGED)
        self._former: deque[float] = deque(maxlen=delay)  # the losses before those of the last `delay` steps
        self._rises: deque[float] = deque(maxlen=_AVERAGED)
        self._low, self._high = math.inf, -math.inf  # over all losses before the last `delay` steps

    def diverged(self, loss: float, largest_value: float, rise: float = math.nan) -> bool:
        """Add the loss of the next gradient step; return whether the loss has diverged.

        Args:
            loss: The loss, finite.
            largest_value: The largest value that the rewards allow, >= 0; see `RewardScale`.
            rise: Rise of the loss of the minibatch by the step, negative for a fall. Defaults to NaN for unknown.
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
    """Bounds the values of states: the largest reward so far, at every step of the horizon of the discount.

    Args:
        gamma: Discount, in [0, 1]; for 1 the horizon is the number of steps so far.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._largest = 1.0  # other terms, such as the entropy, have this size
        self._n_steps = 0

    def add(self, rewards: Array) -> None:
        """Add the rewards of one step of all environments, [N]."""
        self._n_steps += 1
        self._largest = max(self._largest, float(np.abs(rewards).max()))

    @property
    def largest_value(self) -> float:
        """Upper bound of the discounted sum of rewards."""
        return self._largest * (1.0 / (1.0 - self._gamma) if self._gamma < 1.0 else max(1, self._n_steps))


def steps_per_decade(start_lr: float, end_lr: float, n_increases: int) -> int:
    """Return the number of increases for a factor of about ten: at least 10, at most a third of all increases."""
    decades = math.log10(end_lr / start_lr)
    return max(10, min(math.ceil(n_increases / decades), n_increases // 3))


class CollapseGuard:
    """Detects that returns have fallen back to their beginning after a clear rise, which shows divergence.

    The mean returns of ten rates are averaged; a rise is clear if it exceeds three standard deviations of the first
    ten. Single episodes are not used, because short episodes end first.
    """

    _WINDOW = 10

    def __init__(self) -> None:
        self._returns: list[float] = []
        self._best = -math.inf

    def collapsed(self, mean_return: float) -> bool:
        """Add the mean return at the next rate; return whether the returns have collapsed."""
        self._returns.append(mean_return)
        if len(self._returns) < 2 * self._WINDOW:
            return False
        first = self._returns[: self._WINDOW]
        began, spread = float(np.mean(first)), max(float(np.std(first)), 1e-8)
        now = float(np.mean(self._returns[-self._WINDOW :]))
        self._best = max(self._best, now)
        return self._best - began > 3 * spread and now <= began
