"""Proximal policy optimization: Schulman et al. 2017, arXiv 1707.06347, with the clipped objective.

Choices that the paper leaves open follow the defaults of "The 37 implementation details of PPO" (Huang et al. 2022)
that are enabled here: orthogonal initialization, an epsilon of 1e-5 in Adam, advantages normalized within a minibatch,
separate networks for policy and value, no clipping of the value loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.algorithms.actor_critic import ActorCritic, OneLossConfig, approximate_kl
from agents.backend.tensorflow import ops
from agents.buffers import RolloutBuffer
from agents.config.agent_config import hyperparameter
from agents.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OneLossConfig):
    """Hyperparameters of PPO. The defaults suit small tasks: short rollouts in 8 environments, many epochs."""

    # Keras's epsilon equals that of the original implementation, which also adds it before the bias correction.
    optimizer: str = hyperparameter(
        "adam(epsilon=1e-05)",
        "Keras optimizer by name, optionally with arguments: sgd(momentum=0.9).",
        search=("adam(epsilon=1e-05)", "adamw(epsilon=1e-05)", "rmsprop", "sgd"),
    )
    batch_size: int = hyperparameter(
        64, "Largest number of rows in a minibatch; a rollout is split evenly.", low=1, search=(32, 64, 128, 256)
    )
    n_epochs: int = hyperparameter(10, "Epochs over each rollout.", low=1, search=(3, 20))
    clip_range: float = hyperparameter(
        0.2, "Clipping range of the probability ratio around 1.", above=0.0, live=True, search=(0.1, 0.4)
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.normalize_advantages and self.batch_size < 2:
            raise ConfigurationError(
                "normalize_advantages needs minibatches of at least two rows (the advantage of a single row would be "
                "zero): raise batch_size, or switch it off."
            )


class PPO(ActorCritic):
    """Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347) with the clipped objective.

    For discrete, multi-discrete and continuous actions.

    ``agents.make("ppo", "CartPole-v1", clip_range=0.1)`` makes one; its hyperparameters are those of `PPOConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: See `Agent`.
    """

    config_class = PPOConfig
    config: PPOConfig

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> RolloutBuffer:
        config = self.config
        size = config.batch_size
        if config.gru_units is not None:  # rows of minibatches are sequences
            size = -(-size // config.steps_of_sequences(config.n_steps))
        return RolloutBuffer(n_steps=config.n_steps, n_epochs=config.n_epochs, batch_size=size, rng=rng)

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        parameters = self.outputs("actor", batch)  # [B, A]
        values = self.outputs("critic", batch)[:, 0]  # [B]
        batch = self.steps(batch)
        advantages = batch["advantages"]
        log_ratio = self.distribution.log_prob(parameters, batch["actions"]) - batch["log_probs"]
        ratio = ops.exp(log_ratio)
        clip = self.hyperparameters.clip_range
        clipped = ops.clip(ratio, 1.0 - clip, 1.0 + clip)
        policy_loss = -ops.mean(ops.minimum(ratio * advantages, clipped * advantages))
        value_loss = ops.mean(ops.square(values - batch["returns"]))
        entropy = ops.mean(self.distribution.entropy(parameters))
        return {
            **self.losses(policy_loss, value_loss, entropy),
            "value_mean": ops.mean(values),
            "approx_kl": approximate_kl(log_ratio),
            "clip_fraction": ops.mean(ops.cast(ops.abs(ratio - 1.0) > clip, "float32")),
        }
