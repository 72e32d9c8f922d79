"""The bit-flipping environment of the paper on hindsight (Andrychowicz et al. 2017, arXiv 1707.01495).

Importing this module registers ``BitFlip-v0``; the id ``agents.environments.bit_flip:BitFlip-v0`` imports it.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]


class BitFlip(gym.Env[Any, Any]):
    """Environment of n bits and a random goal state: each action flips one bit. Reward -1 per step, 0 at the goal.

    An episode terminates at the goal, or is truncated after n steps. Without hindsight, agents hardly ever reach a goal
    of more than about 8 bits.

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
        """Draw the initial state and the goal."""
        super().reset(seed=seed)
        self._steps = 0
        self._bits, self._wanted = self.np_random.integers(0, 2, (2, self.n_bits), np.int8)
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Flip a bit."""
        self._bits = self._bits.copy()
        self._bits[action] ^= 1
        self._steps += 1
        reward = float(self.compute_reward(self._bits, self._wanted, {}))
        reached = reward == 0.0
        return self._seen(), reward, reached, self._steps >= self.n_bits and not reached, {"is_success": reached}

    def _seen(self) -> dict[str, Array]:
        parts = {"observation": self._bits, "achieved_goal": self._bits, "desired_goal": self._wanted}
        return {name: bits.copy() for name, bits in parts.items()}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return 0 where all bits [..., n] equal the goal, else -1."""
        return np.asarray(-1.0 * np.any(achieved_goal != desired_goal, axis=-1), np.float32)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return whether all bits [..., n] equal the goal."""
        return np.asarray(np.all(achieved_goal == desired_goal, axis=-1))


gym.register(id="BitFlip-v0", entry_point="agents.environments.bit_flip:BitFlip")
