"""Adversarial inverse reinforcement learning: Fu et al. 2018, arXiv 1710.11248.

The discriminator is exp f / (exp f + policy), with f(s, s') = g(s) + gamma h(s') - h(s): a reward g of states alone
and a shaping h. The agent's reward is f minus the logarithm of its policy, the logarithm of the odds that the expert
took the step.

A reward of states alone is what can be taken out, and used where the dynamics are others. It cannot forbid an action
that moves the state little: a lander that has landed may fire its engines for ever, which the entropy of the policy
rewards. As in the paper, the reward may depend on actions as well, g(s, a), where only imitation is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np

from agents.algorithms.imitation.learned_reward import REWARD, LearnedReward, LearnedRewardConfig, Pairs
from agents.config.agent_config import hyperparameter
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]

SHAPING = "shaping"


@runtime_checkable
class StochasticPolicy(Protocol):
    """Algorithms whose policy has probabilities."""

    def log_probabilities(self, observations: Array, actions: Array) -> Array:
        """Return the log-probabilities [R] of actions [R, ...] for observations [R, ...]."""


@dataclass(frozen=True, kw_only=True)
class AIRLConfig(LearnedRewardConfig):
    """Hyperparameters of a reward that AIRL learns."""

    reward_of_actions: bool = hyperparameter(
        False, "Let the reward depend on actions as well: closer imitation, but no use where dynamics change."
    )


class AIRL(LearnedReward):
    """The part of an agent that learns its reward by AIRL.

    Raises:
        ConfigurationError: The agent's policy has no probabilities.
    """

    reward_name, title, about = "airl", "AIRL", "with a reward that AIRL learns"
    config_part = AIRLConfig
    reward_networks: ClassVar[tuple[str, ...]] = (REWARD, SHAPING)

    def build(self) -> Any:
        if not isinstance(self, StochasticPolicy):
            raise ConfigurationError(
                f"AIRL needs a policy with probabilities, which {self.algorithm_name} has not: take ppo, "
                f"a2c, trpo or sac, or reward='gail'."
            )
        return super().build()

    def reward_input_size(self, name: str) -> int:
        with_actions = name == REWARD and self.config.reward_of_actions
        return self.n_features + (self.n_action_features if with_actions else 0)

    def pairs(self, observations: Array, actions: Array, successors: Array, terminated: Array) -> Pairs:
        log_probs = cast("StochasticPolicy", self).log_probabilities(observations, actions)
        columns = [self.scale.features(successors, terminated), self.scale.features(observations)]
        columns += [self.action_features(actions)] if self.config.reward_of_actions else []
        return Pairs(np.concatenate(columns, axis=1), log_probs.astype(np.float32))

    @cached_property
    def absorbing_inputs(self) -> Array:
        inputs = np.zeros((1, self.n_features + self.reward_input_size(REWARD)), np.float32)
        inputs[0, [self.n_features - 1, 2 * self.n_features - 1]] = 1.0
        return inputs

    def logits(self, networks: Callable[[str, Any], Any], inputs: Any) -> Any:
        n = self.n_features
        then, now = inputs[..., :n], inputs[..., n : 2 * n]
        shaping = self.hyperparameters.gamma * networks(SHAPING, then) - networks(SHAPING, now)
        return networks(REWARD, inputs[..., n:]) + shaping
