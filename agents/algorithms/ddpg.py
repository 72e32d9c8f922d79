"""Deep deterministic policy gradient: Lillicrap et al. 2015, arXiv 1509.02971.

As in later work, all weights start from Keras's initialisation and the noise is Gaussian unless another is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.backend import keras
from agents.config import hyperparameter
from agents.continuous import ContinuousAgent, ContinuousConfig
from agents.errors import ConfigurationError
from agents.exploration import GaussianNoise, Noise, make_noise
from agents.learning import Turn
from agents.networks import network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(ContinuousConfig):
    """Hyperparameters of DDPG."""

    noise: str = hyperparameter("gaussian", "Noise on the actions by name (see agents.exploration).", acting=True)
    noise_kwargs: Mapping[str, Any] = hyperparameter({}, "Arguments of that noise.", acting=True)
    policy_delay: int = hyperparameter(1, "Gradient steps of the critic between those of the actor.", low=1)


class DDPG(ContinuousAgent):
    """DDPG for continuous actions. See `Agent` for the arguments."""

    config_class = DDPGConfig
    config: DDPGConfig
    critics: ClassVar[tuple[str, ...]] = ("critic",)
    target_networks: ClassVar[Mapping[str, str]] = {"target_critic": "critic", "target_actor": "actor"}

    @property
    def rowwise(self) -> bool:
        return isinstance(self.noise, GaussianNoise)  # the others remember

    def build(self) -> Mapping[str, keras.Model]:
        return {**super().build(), "target_actor": self.actor_network("target_actor")}

    def actor_network(self, name: str) -> keras.Model:
        head = keras.layers.Dense(self.n_dimensions, activation="tanh")
        layers = self.config.layers("actor")
        return network(self.observation_space, outputs=self.n_dimensions, head=head, name=name, **layers)

    def start(self) -> None:
        super().start()
        self.noise: Noise = make_noise(self.config.noise, **self.config.noise_kwargs)

    def act(self, observations: Array, explore: bool = True) -> Array:
        if explore and self.warming_up:
            return self.shaped(self.random_actions(len(observations)))
        actions = self.infer("actor", observations)  # [N, D]
        if explore:
            actions = np.clip(actions + self.noise.sample(actions.shape, self.rng), -1.0, 1.0)
        return self.shaped(np.asarray(actions, np.float32))

    def advance(self, env_steps: int) -> None:
        super().advance(env_steps)
        self.noise.step(env_steps)

    def restart(self, environments: Array | None) -> None:
        super().restart(environments)
        self.noise.reset(environments)

    def check_poolable(self) -> None:
        if not self.rowwise:
            raise ConfigurationError(
                f"{type(self.noise).__name__} remembers where it was, and each process of a pool would remember for "
                f"itself: choose noise='gaussian', or train without a pool."
            )

    def turns(self) -> Sequence[Turn]:
        return [
            Turn(["critic"], self.critic_loss),
            Turn(["actor"], self.actor_loss, every=self.config.policy_delay),
        ]

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """The critics' errors beside the value of what the target actor does next."""
        successors = batch["next_observations"]
        targets = tuple(f"target_{critic}" for critic in self.critics)
        next_values = self.smallest(targets, successors, self.next_actions(batch))  # [B]
        return self.critic_losses(batch, self.bootstrapped(batch, next_values))

    def next_actions(self, batch: dict[str, Any]) -> Any:
        """What the target actor does next, [B, D]."""
        return self.networks["target_actor"](batch["next_observations"])

    def actor_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """The critic's value of what the actor does, to be raised."""
        actions = self.networks["actor"](batch["observations"], training=True)  # [B, D]
        return {"actor": -self.mean(batch, self.value(self.critics[0], batch["observations"], actions))}

    def extra_state(self) -> dict[str, Any]:
        return {"noise": self.noise.get_state()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        self.noise.set_state(state["noise"])
