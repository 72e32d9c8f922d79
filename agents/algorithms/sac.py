"""Soft actor-critic: Haarnoja et al. 2018, arXiv 1812.05905, with two critics and a learned temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.algorithms.continuous import ContinuousAgent, ContinuousConfig
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import hyperparameter
from agents.contract.rows import row_by_row
from agents.errors import ConfigurationError
from agents.networks.builders import constant, network
from agents.networks.distributions import SquashedGaussian
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]


def _learns_temperature(config: Any) -> bool:
    return config.ent_coef is None


@dataclass(frozen=True, kw_only=True)
class SACConfig(ContinuousConfig):
    """Hyperparameters of SAC."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        3e-4, "Step size of the optimizers.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    ent_coef: float | None = hyperparameter(
        None, "Temperature, the weight of the entropy; null: it is learned.", above=0.0, live=True
    )
    initial_ent_coef: float = hyperparameter(
        1.0, "Initial temperature, if it is learned.", above=0.0, when=_learns_temperature
    )
    target_entropy: float | None = hyperparameter(
        None,
        "Target entropy of a learned temperature, in nats; null: minus the dimensions of an action.",
        live=True,
        when=_learns_temperature,
    )
    n_step: int = hyperparameter(1, "Steps until the bootstrap; must be 1: values include every step's entropy.", low=1)

    def __post_init__(self) -> None:
        """Refuse values that would make learning wrong."""
        super().__post_init__()
        if self.n_step > 1:
            raise ConfigurationError(
                f"n_step must be 1 for SAC, got {self.n_step}: rewards of several steps would leave out the entropy of "
                f"the policy in between, so that values and actions would use different temperatures."
            )


class SAC(ContinuousAgent):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905) for continuous actions.

    ``agents.make("sac", "Pendulum-v1", ent_coef=0.2)`` makes one; its hyperparameters are those of `SACConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not continuous, or have no bounds.
    """

    config_class = SACConfig
    config: SACConfig
    critics: ClassVar[tuple[str, ...]] = ("critic", "second_critic")
    adapting: ClassVar[tuple[str, ...]] = ("temperature",)
    """Optimizers of numbers that adapt to the policy."""
    target_networks: ClassVar[Mapping[str, str]] = {
        "target_critic": "critic",
        "target_second_critic": "second_critic",
    }

    def build(self) -> Mapping[str, keras.Model]:
        made = dict(super().build())
        highest, target = self.n_dimensions * math.log(2.0), self.config.target_entropy
        if self.config.ent_coef is None and target is not None and target >= highest:
            raise ConfigurationError(
                f"target_entropy must be less than {highest:.3g}, the entropy of actions drawn uniformly within "
                f"[-1, 1] (log 2 for each dimension), got {target:g}; the usual one is {-self.n_dimensions}."
            )
        if self.config.ent_coef is None:
            first = math.log(self.config.initial_ent_coef)
            made["temperature"] = constant(self.observation_space, first, name="temperature")
        return made

    def actor_network(self, name: str) -> keras.Model:
        return network(
            self.observation_space,
            outputs=2 * self.n_dimensions,
            name=name,
            **self.config.layers("actor", self.observation_space),
        )

    def optimized_networks(self) -> Mapping[str, tuple[str, ...]]:
        learned = {"temperature": ("temperature",)} if self.config.ent_coef is None else {}
        return {**super().optimized_networks(), **learned}

    @row_by_row
    def chosen(self, observations: Array, explore: bool) -> Array:
        parameters = self.infer("actor", observations)  # [N, 2 D]
        return SquashedGaussian.sample(parameters, self.rng) if explore else SquashedGaussian.mode(parameters)

    def log_probabilities(self, observations: Array, actions: Array) -> Array:
        """Return the log-densities [R] of actions [R, ...] under the policy, for observations [R, ...]."""
        flat = actions.reshape(-1, self.n_dimensions)
        return SquashedGaussian.log_prob_numpy(self.infer("actor", observations), flat)

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add the standard normal numbers [M, D] of the policy's actions in the losses."""
        noise = self.rng.standard_normal((len(data["rewards"]), 2 * self.n_dimensions)).astype(np.float32)
        return {**data, "noise": noise[:, : self.n_dimensions], "next_noise": noise[:, self.n_dimensions :]}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        policy = ["actor", "temperature"] if self.learns_temperature else ["actor"]
        return [OptimizerStep(["critic"], self.critic_loss), OptimizerStep(policy, self.policy_loss)]

    @property
    def learns_temperature(self) -> bool:
        """True if the temperature is learned."""
        return "temperature" in self.optimizers

    def log_temperature(self, observations: Any) -> Any:
        """Return the logarithm of the temperature, [B], equal in all rows."""
        return self.networks["temperature"](observations)[:, 0]

    def temperature(self, observations: Any) -> Any:
        """Return the temperature: a number, or [B]."""
        if not self.learns_temperature:
            return self.hyperparameters.ent_coef
        return ops.stop_gradient(ops.exp(self.log_temperature(observations)))

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return half of the critics' squared errors against the soft value of the next actions (equation 5)."""
        successors = batch["next_observations"]
        parameters = self.networks["actor"](successors)  # [B, 2 D]
        actions, log_probs = SquashedGaussian.draw(parameters, batch["next_noise"])
        targets = tuple(f"target_{critic}" for critic in self.critics)
        next_values = self.smallest(targets, successors, actions) - self.temperature(successors) * log_probs  # [B]
        losses = self.critic_losses(batch, self.bootstrapped(batch, next_values))
        return {**losses, "critic": 0.5 * losses["critic"]}

    def policy_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the policy's negative soft value, and the loss of the temperature if it is learned."""
        observations = batch["observations"]
        parameters = self.networks["actor"](observations, training=True)  # [B, 2 D]
        actions, log_probs = SquashedGaussian.draw(parameters, batch["noise"])
        values = self.smallest(self.critics, observations, actions)  # [B]
        temperature = self.temperature(observations)
        losses = {"actor": self.mean(batch, temperature * log_probs - values), "entropy": -ops.mean(log_probs)}
        if not self.learns_temperature:
            return losses
        target = self.hyperparameters.target_entropy
        if target is None:
            target = -float(self.n_dimensions)
        missing = ops.stop_gradient(log_probs + target)  # [B] > 0 where the entropy is too small
        loss = -self.mean(batch, self.log_temperature(observations) * missing)
        return {**losses, "temperature": loss, "ent_coef": ops.mean(temperature)}

    def cloning_loss(self, batch: dict[str, Any], training: bool = True) -> Any:
        """Return the mean negative log-density of a minibatch's actions under the policy.

        Beyond their clips, logarithms of standard deviations have no gradient, and would stay there for the whole
        training. Their squared distance is added, which brings them back.
        """
        parameters = self.networks["actor"](batch["observations"], training=training)
        log_likelihood = SquashedGaussian.log_prob(parameters, self.flat_actions(batch))
        _, log_std = ops.split(parameters, 2, axis=1)
        beyond = log_std - ops.clip(log_std, *SquashedGaussian.LOG_STD)
        return ops.mean(ops.sum(ops.square(beyond), axis=1) - log_likelihood)
