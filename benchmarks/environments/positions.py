"""CartPole-v1 without velocities: a task that needs memory."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Positions(gym.ObservationWrapper[Any, Any, Any]):
    """CartPole-v1 whose observations are the position of the cart and the angle of the pole only."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        space = self.env.observation_space
        assert isinstance(space, gym.spaces.Box)
        self.observation_space = gym.spaces.Box(space.low[::2], space.high[::2], dtype=np.float32)

    def observation(self, observation: Any) -> Any:
        """Return position and angle."""
        return observation[::2]
