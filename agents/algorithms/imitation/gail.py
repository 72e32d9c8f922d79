"""Generative adversarial imitation learning: Ho and Ermon 2016, arXiv 1606.03476.

The discriminator sees observations and actions. The agent's reward is the logarithm of the odds that the expert took
the step, as in Kostrikov et al. 2019 (arXiv 1809.02925), and not the always positive reward of the first paper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from agents.algorithms.imitation.learned_reward import REWARD, LearnedReward, Pairs

Array = np.ndarray[Any, Any]


class GAIL(LearnedReward):
    """The part of an agent that learns its reward by GAIL."""

    reward_name, title, about = "gail", "GAIL", "with a reward that GAIL learns"

    def reward_input_size(self, name: str) -> int:
        return self.n_features + self.n_action_features

    def pairs(self, observations: Array, actions: Array, successors: Array, terminated: Array) -> Pairs:
        return Pairs(np.concatenate([self.scale.features(observations), self.action_features(actions)], axis=1))

    @cached_property
    def absorbing_inputs(self) -> Array:
        inputs = np.zeros((1, self.reward_input_size(REWARD)), np.float32)
        inputs[0, self.n_features - 1] = 1.0
        return inputs

    def logits(self, networks: Callable[[str, Any], Any], inputs: Any) -> Any:
        return networks(REWARD, inputs)
