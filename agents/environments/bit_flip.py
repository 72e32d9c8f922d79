"""The environment of bits that the paper on hindsight begins with (Andrychowicz et al. 2017, arXiv 1707.01495).

Importing this module registers ``BitFlip-v0``; as an id, ``agents.environments.bit_flip:BitFlip-v0`` does that too.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]


class BitFlip(gym.Env[Any, Any]):
    """Each action flips one of n bits; the state wanted is another random one. -1 a step until it is there, then 0.

    An episode ends there, or is cut off after n steps. Without hindsight a reward is hardly ever seen where there are
    more than about 8 bits.

    Args:
        n_bits: n, >= 1. Defaults to 10.
    """

    def __init__(self, n_bits: int = 10) -> None:
        if n_bits < 1:
            raise ValueError(f"n_bits must be >= 1, got {n_bits}")
        self.n_bits = n_bits
        self.action_space = spaces.Discrete(n_bits)
        bits = spaces.MultiBinary(n_bits)
        self.observation_space = spaces.Dict({"observation": bits, "achieved_goal": bits, "desired_goal": bits})
        self._bits = self._wanted = np.zeros(n_bits, np.int8)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Array], Any]:
        """Draws both states."""
        super().reset(seed=seed)
        self._steps = 0
        self._bits, self._wanted = self.np_random.integers(0, 2, (2, self.n_bits), np.int8)
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Flips a bit."""
        self._bits = self._bits.copy()
        self._bits[action] ^= 1
        self._steps += 1
        reward = float(self.compute_reward(self._bits, self._wanted, {}))
        there = reward == 0.0
        return self._seen(), reward, there, self._steps >= self.n_bits and not there, {"is_success": there}

    def _seen(self) -> dict[str, Array]:
        parts = {"observation": self._bits, "achieved_goal": self._bits, "desired_goal": self._wanted}
        return {name: bits.copy() for name, bits in parts.items()}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """0 where all bits [..., n] are as wanted, else -1."""
        return np.asarray(-1.0 * np.any(achieved_goal != desired_goal, axis=-1), np.float32)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Whether all bits [..., n] are as wanted."""
        return np.asarray(np.all(achieved_goal == desired_goal, axis=-1))


gym.register(id="BitFlip-v0", entry_point="agents.environments.bit_flip:BitFlip")
