"""Proximal policy optimisation: Schulman et al. 2017, arXiv 1707.06347, with the clipped objective.

Choices that the paper leaves open follow "The 37 implementation details of PPO" (Huang et al. 2022) as far as
they are switched on by default here: orthogonal initialisation, advantages normalised within a minibatch,
separate networks for policy and value, no clipping of the value loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.backend import keras, ops
from agents.config import AgentConfig, hyperparameter
from agents.distributions import Categorical, DiagonalGaussian, GaussianHead
from agents.errors import ConfigurationError
from agents.keras_agent import KerasAgent
from agents.networks import is_image, network
from agents.normalization import RunningNormalizer
from agents.replay import RolloutMemory
from agents.returns import generalized_advantages

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AgentConfig):
    """Hyperparameters of PPO. The defaults suit small tasks: short rollouts in 8 copies, many epochs."""

    n_envs: int = hyperparameter(8, "Copies of the environment that are stepped together.", low=1)
    n_steps: int = hyperparameter(128, "Steps of each copy a rollout.", low=1, search=(32, 64, 128, 256, 512))
    batch_size: int = hyperparameter(64, "Rows a minibatch.", low=1, search=(32, 64, 128, 256))
    n_epochs: int = hyperparameter(10, "Times that a rollout is learned from.", low=1, search=(3, 20))
    gamma: float = hyperparameter(0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999))
    gae_lambda: float = hyperparameter(
        0.95, "0: one-step advantages, 1: Monte-Carlo ones.", low=0.0, high=1.0, live=True, search=(0.8, 1.0)
    )
    clip_range: float = hyperparameter(
        0.2, "How far the probability ratio counts beyond 1.", above=0.0, live=True, search=(0.1, 0.4)
    )
    ent_coef: float = hyperparameter(
        0.0, "Weight of the entropy bonus.", low=0.0, live=True, search=(1e-8, 0.1), log=True
    )
    vf_coef: float = hyperparameter(0.5, "Weight of the value loss.", low=0.0, live=True, search=(0.2, 1.0))
    max_grad_norm: float | None = hyperparameter(
        0.5,
        "Gradients are scaled down to this global norm; null switches it off.",
        above=0.0,
        live=True,
        search=(0.3, 5.0),
    )
    hidden_sizes: tuple[int, ...] = hyperparameter((64, 64), "Units of the hidden layers of each network.")
    activation: str = hyperparameter("tanh", "Keras activation of the hidden layers.", search=("tanh", "relu"))
    normalize_observations: bool = hyperparameter(
        False, "Scale observations by their running mean and standard deviation."
    )
    normalize_advantages: bool = hyperparameter(True, "Scale advantages within each minibatch.")

    def __post_init__(self) -> None:
        """Refuses what contradicts itself."""
        super().__post_init__()
        if self.normalize_advantages and min(self.batch_size, self.n_steps * self.n_envs) < 2:
            raise ConfigurationError(
                "normalize_advantages needs minibatches of at least two rows (one row less its own mean is zero): "
                "raise batch_size, n_steps or n_envs, or switch it off."
            )


class PPO(KerasAgent):
    """PPO for discrete and continuous actions. See `Agent` for the arguments."""

    config_class = PPOConfig
    config: PPOConfig

    @property
    def rowwise(self) -> bool:
        return self.normalizer is None  # which differs between members

    def build(self) -> Mapping[str, keras.Model]:
        config, space = self.config, self.observation_space
        shared: dict[str, Any] = {"hidden_sizes": config.hidden_sizes, "activation": config.activation}
        if isinstance(self.action_space, spaces.Discrete):
            outputs, head = int(self.action_space.n), None
        else:
            outputs = math.prod(self.action_space.shape)
            head = GaussianHead(outputs)
        return {
            "actor": network(space, outputs=outputs, output_scale=0.01, head=head, name="actor", **shared),
            "critic": network(space, outputs=1, output_scale=1.0, name="critic", **shared),
        }

    def start(self) -> None:
        self.distribution = Categorical if isinstance(self.action_space, spaces.Discrete) else DiagonalGaussian
        wanted = self.config.normalize_observations and not is_image(self.observation_space)
        self.normalizer = RunningNormalizer(self.observation_space.shape) if wanted else None

    def make_memory(self, n_envs: int, rng: np.random.Generator) -> RolloutMemory:
        config = self.config
        return RolloutMemory(n_steps=config.n_steps, n_epochs=config.n_epochs, batch_size=config.batch_size, rng=rng)

    def act(self, observations: Array, explore: bool = True) -> Array:
        if self.normalizer is not None:
            observations = self.normalizer(observations)
        parameters = self.infer("actor", observations)  # [N, A] or [N, 2 D]
        actions = self.distribution.sample(parameters, self.rng) if explore else self.distribution.mode(parameters)
        return (
            actions if isinstance(self.action_space, spaces.Discrete) else actions.reshape(-1, *self.action_space.shape)
        )

    def acting_state(self) -> list[Array]:
        return [*super().acting_state(), *(self.normalizer.arrays() if self.normalizer else [])]

    def set_acting_state(self, state: Sequence[Array]) -> None:
        if self.normalizer is not None:
            *state, mean, variance, count = state
            self.normalizer.set_state({"mean": mean, "variance": variance, "count": count})
        super().set_acting_state(state)

    def prepare(self, data: dict[str, Array]) -> dict[str, Array]:
        """Adds advantages, value targets and the log-probabilities of the actions under the policy that took them."""
        observations, successors = data["observations"], data["next_observations"]
        if self.normalizer is not None:
            raw = observations.reshape(-1, *observations.shape[2:])
            observations, successors = self.normalizer(observations), self.normalizer(successors)
            self.normalizer.update(raw)
        n_steps, n_envs = data["rewards"].shape
        actions = data["actions"].reshape(n_steps * n_envs, *data["actions"].shape[2:])
        if not isinstance(self.action_space, spaces.Discrete):
            actions = actions.reshape(len(actions), -1)

        def infer(name: str, inputs: Array) -> Array:
            return self.infer(name, inputs.reshape(-1, *inputs.shape[2:]))  # [T * N, outputs]

        log_probs = self.distribution.log_prob_numpy(infer("actor", observations), actions)
        values = infer("critic", observations).reshape(n_steps, n_envs)
        advantages = generalized_advantages(
            data["rewards"],
            values,
            infer("critic", successors).reshape(n_steps, n_envs),
            data["terminated"],
            data["truncated"],
            gamma=self.number("gamma"),
            gae_lambda=self.number("gae_lambda"),
        )
        return {
            "observations": observations,
            "actions": actions.reshape(n_steps, n_envs, *actions.shape[1:]),
            "log_probs": log_probs.reshape(n_steps, n_envs).astype(np.float32),
            "advantages": advantages,
            "returns": advantages + values,
        }

    def whole(self, batch: dict[str, Any]) -> dict[str, Any]:
        advantages = batch["advantages"]
        if not self.config.normalize_advantages:
            return batch
        return {**batch, "advantages": (advantages - ops.mean(advantages)) / (ops.std(advantages) + 1e-8)}

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        parameters = self.networks["actor"](batch["observations"], training=True)  # [B, A]
        values = self.networks["critic"](batch["observations"], training=True)[:, 0]  # [B]
        advantages = batch["advantages"]
        log_ratio = self.distribution.log_prob(parameters, batch["actions"]) - batch["log_probs"]
        ratio = ops.exp(log_ratio)
        clip = self.live.clip_range
        clipped = ops.clip(ratio, 1.0 - clip, 1.0 + clip)
        policy_loss = -ops.mean(ops.minimum(ratio * advantages, clipped * advantages))
        value_loss = ops.mean(ops.square(values - batch["returns"]))
        entropy = ops.mean(self.distribution.entropy(parameters))
        return {
            "default": policy_loss + self.live.vf_coef * value_loss - self.live.ent_coef * entropy,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            # Schulman's estimator of the divergence between old and new policy: small variance, never negative.
            "approx_kl": ops.mean(ratio - 1.0 - log_ratio),
            "clip_fraction": ops.mean(ops.cast(ops.abs(ratio - 1.0) > clip, "float32")),
        }

    def extra_state(self) -> dict[str, Any]:
        return {} if self.normalizer is None else {"normalizer": self.normalizer.get_state()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        if self.normalizer is not None:
            self.normalizer.set_state(state["normalizer"])
