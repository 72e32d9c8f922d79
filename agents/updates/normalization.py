"""Normalization of observations and scaling of rewards by running means and variances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class RunningNormalizer:
    """Normalize observations by the running mean and variance of all of them (Chan et al. 1979, merged in batches).

    Args:
        shape: Shape of one observation.
        clip: Normalized values are clipped to [-clip, clip]. Defaults to 10.
    """

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.variance = np.ones(shape, np.float64)
        self.count: float | Array = 0.0
        self.clip = clip

    def __call__(self, observations: Array) -> Array:
        """Normalize observations [..., *shape]; return float32 of the same shape."""
        scaled = (observations - self.mean) / np.sqrt(self.variance + 1e-8)
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)

    def update(self, observations: Array) -> None:
        """Update the statistics with observations [M, *shape]; there may be none."""
        count = len(observations)
        if not count:
            return
        mean = observations.mean(axis=0, dtype=np.float64)
        variance = observations.var(axis=0, dtype=np.float64)
        if self.count == 0:
            self.mean, self.variance, self.count = mean, variance, float(count)
            return
        total = self.count + count
        delta = mean - self.mean
        squares = self.variance * self.count + variance * count + delta**2 * self.count * count / total
        self.mean = self.mean + delta * count / total
        self.variance = squares / total
        self.count = total

    def arrays(self) -> list[Array]:
        """Return mean, variance and count as arrays."""
        return [self.mean.copy(), self.variance.copy(), np.array(self.count)]

    def get_state(self) -> dict[str, Any]:
        """Return mean, variance and count."""
        return {"mean": self.mean.copy(), "variance": self.variance.copy(), "count": self.count}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = float(state["count"])


class RewardScaler:
    """Divide rewards by the running standard deviation of their discounted sums within episodes.

    This brings values to about 1 whatever the scale of an environment's rewards (Engstrom et al. 2020, arXiv
    2005.12729, section 3). Rewards are not shifted: a shift would change the optimal policy.

    Args:
        clip: Scaled rewards are clipped to [-clip, clip]. Defaults to 10.

    Attributes:
        sums: Discounted sums of the running episodes, [N]; [0] before the first rollout. Not part of the state.
    """

    def __init__(self, clip: float = 10.0) -> None:
        self.clip = clip
        self._seen = RunningNormalizer(())
        self.sums: Array = np.zeros(0)

    def __call__(self, rewards: Array, ended: Array, gamma: float | Array, counted: Array | None = None) -> Array:
        """Update the statistics with a rollout, and scale its rewards.

        Args:
            rewards: [T, N].
            ended: [T, N] bool: the episode ended with that step.
            gamma: Discount, 0 to 1; one number, or [N].
            counted: [T, N] bool: the sum after that step enters the statistics. Defaults to None, all of them.

        Returns:
            [T, N] float32.
        """
        sums = self.sums if len(self.sums) else np.zeros(rewards.shape[1])
        seen = np.empty(rewards.shape, np.float64)
        for t in range(len(rewards)):
            seen[t] = rewards[t] + gamma * sums
            sums = np.where(ended[t], 0.0, seen[t])
        self.sums = sums
        self._seen.update(seen.ravel() if counted is None else seen[counted])
        scaled = rewards / np.sqrt(self._seen.variance + 1e-8)
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)

    def get_state(self) -> dict[str, Any]:
        """Return the statistics."""
        return self._seen.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; those of earlier versions have the sums too."""
        self._seen.set_state(state)
        if "sums" in state:
            self.sums = np.array(state["sums"])
