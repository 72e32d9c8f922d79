"""Deep deterministic policy gradient: Lillicrap et al. 2015, arXiv 1509.02971.

As in later work, all weights use Keras's initialization, and the noise is Gaussian by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.algorithms.continuous import ContinuousAgent, ContinuousConfig
from agents.backend.tensorflow import keras
from agents.config.agent_config import explores, hyperparameter
from agents.contract.rows import row_by_row
from agents.networks.builders import network
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(ContinuousConfig):
    """Hyperparameters of DDPG."""

    noise: str | None = hyperparameter(
        "gaussian", "Noise on the actions by name (see agents.exploration); null: none.", acting=True, when=explores
    )
    policy_delay: int = hyperparameter(1, "Gradient steps of the critic between those of the actor.", low=1)


class DDPG(ContinuousAgent):
    """Deep deterministic policy gradient (Lillicrap et al. 2015, arXiv 1509.02971) for continuous actions.

    ``agents.make("ddpg", "Pendulum-v1", tau=0.01)`` makes one; its hyperparameters are those of `DDPGConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not continuous, or have no bounds.
    """

    config_class = DDPGConfig
    config: DDPGConfig
    critics: ClassVar[tuple[str, ...]] = ("critic",)
    target_networks: ClassVar[Mapping[str, str]] = {"target_critic": "critic", "target_actor": "actor"}

    def build(self) -> Mapping[str, keras.Model]:
        return {**super().build(), "target_actor": self.actor_network("target_actor")}

    def actor_network(self, name: str) -> keras.Model:
        head = keras.layers.Dense(self.n_dimensions, activation="tanh")
        layers = self.config.layers("actor", self.observation_space)
        return network(self.observation_space, outputs=self.n_dimensions, head=head, name=name, **layers)

    @row_by_row
    def chosen(self, observations: Array, explore: bool) -> Array:
        return self.infer("actor", observations)

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        return [
            OptimizerStep(["critic"], self.critic_loss),
            OptimizerStep(["actor"], self.actor_loss, every=self.config.policy_delay),
        ]

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the errors of the critics against the value of the target actor's next actions."""
        successors = batch["next_observations"]
        targets = tuple(f"target_{critic}" for critic in self.critics)
        next_values = self.smallest(targets, successors, self.next_actions(batch))  # [B]
        return self.critic_losses(batch, self.bootstrapped(batch, next_values))

    def next_actions(self, batch: dict[str, Any]) -> Any:
        """Return the next actions of the target actor, [B, D]."""
        return self.networks["target_actor"](batch["next_observations"])

    def actor_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the negative mean of the critic's values of the actor's actions."""
        actions = self.networks["actor"](batch["observations"], training=True)  # [B, D]
        return {"actor": -self.mean(batch, self.value(self.critics[0], batch["observations"], actions))}
