"""Generative adversarial imitation learning: Ho and Ermon 2016, arXiv 1606.03476.

The discriminator sees observations and actions. The agent's reward is the logarithm of the odds that the expert took
the step, as in Kostrikov et al. 2019 (arXiv 1809.02925), and not the always positive reward of the first paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.algorithms.imitation.learned_reward import REWARD, LearnedReward, Pairs

Array = np.ndarray[Any, Any]


class GAIL(LearnedReward):
    """The part of an agent that learns its reward by GAIL."""

    def reward_input_size(self, name: str) -> int:
        return self.n_features + self._action_size

    @cached_property
    def _action_size(self) -> int:
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return int(space.n)
        return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else math.prod(space.shape)

    def pairs(self, observations: Array, actions: Array, successors: Array, terminated: Array) -> Pairs:
        return Pairs(np.concatenate([self.features(observations), self._encoded(actions)], axis=1))

    def _encoded(self, actions: Array) -> Array:
        """Return actions [R, ...] as vectors: numbered ones one-hot."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return np.eye(int(space.n), dtype=np.float32)[actions]
        if isinstance(space, spaces.MultiDiscrete):
            columns = actions.reshape(len(actions), -1).T
            sizes = space.nvec.ravel().tolist()
            parts = [np.eye(n, dtype=np.float32)[own] for n, own in zip(sizes, columns, strict=True)]
            return np.concatenate(parts, axis=1)
        return actions.reshape(len(actions), -1).astype(np.float32)

    @cached_property
    def absorbing_inputs(self) -> Array:
        inputs = np.zeros((1, self.reward_input_size(REWARD)), np.float32)
        inputs[0, self.n_features - 1] = 1.0
        return inputs

    def logits(self, networks: Callable[[str, Any], Any], inputs: Any) -> Any:
        return networks(REWARD, inputs)
