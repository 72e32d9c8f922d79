"""Advantage actor-critic: Mnih et al. 2016, arXiv 1602.01783, with synchronous sub-environments (A2C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.algorithms.actor_critic import ActorCritic, OneLossConfig, approximate_kl
from agents.backend.tensorflow import ops
from agents.buffers import RolloutBuffer
from agents.config.agent_config import hyperparameter
from agents.updates.gradient_steps import OptimizerStep


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OneLossConfig):
    """Hyperparameters of A2C: one gradient step on each short rollout."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        7e-4, "Step size of the optimizer.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    # Keras adds epsilon to the mean square, not to its root: 1e-10 here equals 1e-5 in other libraries.
    optimizer: str = hyperparameter(
        "rmsprop(rho=0.99, epsilon=1e-10)",
        "Keras optimizer by name, optionally with arguments: sgd(momentum=0.9).",
        search=("adam(epsilon=1e-05)", "adamw(epsilon=1e-05)", "rmsprop(rho=0.99, epsilon=1e-10)", "sgd"),
    )
    n_steps: int = hyperparameter(5, "Steps per environment in a rollout.", low=1, search=(5, 8, 16, 32, 64))
    gae_lambda: float = hyperparameter(
        1.0,
        "GAE parameter; 0 gives one-step advantages, 1 Monte-Carlo ones.",
        low=0.0,
        high=1.0,
        live=True,
        search=(0.8, 1.0),
    )
    normalize_advantages: bool = hyperparameter(False, "Scale advantages within each rollout.")


class A2C(ActorCritic):
    """Advantage actor-critic (Mnih et al. 2016, arXiv 1602.01783) for discrete, multi-discrete and continuous actions.

    All environments step together, and each short rollout makes one gradient step.

    ``agents.make("a2c", "CartPole-v1", n_steps=8)`` makes one; its hyperparameters are those of `A2CConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: See `Agent`.
    """

    config_class = A2CConfig
    config: A2CConfig

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> RolloutBuffer:
        return RolloutBuffer(n_steps=self.config.n_steps, rng=rng)

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        return [OptimizerStep(list(self.optimizers), self.loss, after=self.divergence)]

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        parameters = self.outputs("actor", batch)  # [B, A]
        values = self.outputs("critic", batch)[:, 0]  # [B]
        batch = self.steps(batch)
        log_probs = self.distribution.log_prob(parameters, batch["actions"])  # [B]
        policy_loss = -ops.mean(log_probs * batch["advantages"])
        value_loss = ops.mean(ops.square(values - batch["returns"]))
        entropy = ops.mean(self.distribution.entropy(parameters))
        return {**self.losses(policy_loss, value_loss, entropy), "value_mean": ops.mean(values)}

    def divergence(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return how far the step has moved the policy; before the step, the policy is the behaviour policy."""
        parameters = self.outputs("actor", batch, training=False)  # [B, A]
        batch = self.steps(batch)
        return {
            "approx_kl": approximate_kl(self.distribution.log_prob(parameters, batch["actions"]) - batch["log_probs"])
        }
