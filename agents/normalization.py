"""Running mean and variance of observations, for networks that want inputs of mean 0 and spread 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class RunningNormalizer:
    """Normalises observations by the mean and variance of all that were seen (Chan et al. 1979, merged in batches).

    Args:
        shape: Shape of one observation.
        clip: Normalised values are cut to [-clip, clip]. Defaults to 10.
    """

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.variance = np.ones(shape, np.float64)
        self.count = 0.0
        self.clip = clip

    def __call__(self, observations: Array) -> Array:
        """[..., *shape] -> the same, float32."""
        scaled = (observations - self.mean) / np.sqrt(self.variance + 1e-8)
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)

    def update(self, observations: Array) -> None:
        """Takes in observations [M, *shape]."""
        count = len(observations)
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
        """Mean, variance and count, as arrays."""
        return [self.mean.copy(), self.variance.copy(), np.array(self.count)]

    def get_state(self) -> dict[str, Any]:
        """Mean, variance and count."""
        return {"mean": self.mean.copy(), "variance": self.variance.copy(), "count": self.count}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Puts back what `get_state` gave."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = float(state["count"])
