"""Adversarial inverse reinforcement learning: Fu et al. 2018, arXiv 1710.11248.

The discriminator is exp f / (exp f + policy), with f(s, s') = g(s) + gamma h(s') - h(s): a reward g of states alone
and a shaping h. The agent's reward is f minus the logarithm of its policy, the logarithm of the odds that the expert
took the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np

from agents.algorithms.imitation.learned_reward import REWARD, LearnedReward, Pairs
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]

SHAPING = "shaping"


@runtime_checkable
class StochasticPolicy(Protocol):
    """Algorithms whose policy has probabilities."""

    def log_probabilities(self, observations: Array, actions: Array) -> Array:
        """Return the log-probabilities [R] of actions [R, ...] for observations [R, ...]."""


class AIRL(LearnedReward):
    """The part of an agent that learns its reward by AIRL.

    Raises:
        ConfigurationError: The agent's policy has no probabilities.
    """

    reward_name, title, about = "airl", "AIRL", "with a reward that AIRL learns"
    reward_networks: ClassVar[tuple[str, ...]] = (REWARD, SHAPING)

    def build(self) -> Any:
        if not isinstance(self, StochasticPolicy):
            raise ConfigurationError(
                f"AIRL needs a policy with probabilities, which {self.algorithm_name} has not: take ppo, "
                f"a2c, trpo or sac, or reward='gail'."
            )
        return super().build()

    def reward_input_size(self, name: str) -> int:
        return self.n_features

    def pairs(self, observations: Array, actions: Array, successors: Array, terminated: Array) -> Pairs:
        log_probs = cast("StochasticPolicy", self).log_probabilities(observations, actions)
        then = self.scale.features(successors, terminated)
        return Pairs(np.concatenate([self.scale.features(observations), then], axis=1), log_probs.astype(np.float32))

    @cached_property
    def absorbing_inputs(self) -> Array:
        inputs = np.zeros((1, 2 * self.n_features), np.float32)
        inputs[0, [self.n_features - 1, -1]] = 1.0
        return inputs

    def logits(self, networks: Callable[[str, Any], Any], inputs: Any) -> Any:
        now, then = inputs[..., : self.n_features], inputs[..., self.n_features :]
        shaping = self.hyperparameters.gamma * networks(SHAPING, then) - networks(SHAPING, now)
        return networks(REWARD, now) + shaping
