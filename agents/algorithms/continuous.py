"""Base class for off-policy agents with continuous actions: an actor and its critics."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from agents.algorithms.off_policy import OffPolicyAgent, OffPolicyConfig
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import explores, hyperparameter
from agents.errors import ConfigurationError
from agents.exploration import GaussianNoise, Noise, make_noise
from agents.networks.builders import critic_network, network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(OffPolicyConfig):
    """Base class for hyperparameters of off-policy agents with continuous actions."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3, "Step size of the optimizers.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    buffer_size: int = hyperparameter(1_000_000, "Transitions in the replay buffer.", low=2)
    learning_starts: int = hyperparameter(
        100, "Environment steps before the first update; actions are drawn uniformly until then.", low=0
    )
    batch_size: int = hyperparameter(256, "Rows of a minibatch.", low=1, search=(64, 128, 256, 512))
    tau: float = hyperparameter(
        0.005,
        "Share of the online networks in an update of the target networks.",
        above=0.0,
        high=1.0,
        live=True,
        search=(0.001, 0.08),
        log=True,
    )
    target_update_interval: int = hyperparameter(1, "Gradient steps between updates of the targets.", low=1)
    hidden_sizes: tuple[int, ...] | None = hyperparameter(
        None, "Units of the hidden layers of each network; null: 256, 256, and 512 after convolutions."
    )

    noise: str | None = hyperparameter(
        None, "Noise on the actions by name (see agents.exploration); null: none.", acting=True, when=explores
    )
    noise_kwargs: Mapping[str, Any] = hyperparameter(
        {}, "Arguments of that noise.", acting=True, when=lambda config: config.explore and config.noise is not None
    )

    separate_rates: ClassVar[tuple[str, ...]] = ("actor", "critic")
    usual_sizes: ClassVar[tuple[int, ...]] = (256, 256)


class ContinuousAgent(OffPolicyAgent):
    """Base class for off-policy agents with an actor and critics of observation and action. See `Agent`.

    Raises:
        ConfigurationError: The actions are not continuous, or have no bounds.
    """

    config_class = ContinuousConfig
    config: ContinuousConfig
    judged_greedily: ClassVar[bool] = True  # it explores with noise
    critics: ClassVar[tuple[str, ...]]
    """Names of the critics; each has a target network, ``target_`` plus its name."""
    policy_network: ClassVar[str] = "actor"
    """The network that `cloning_loss` trains."""

    def build(self) -> Mapping[str, keras.Model]:
        space = self.action_space
        if not isinstance(space, spaces.Box) or not space.is_bounded():
            raise self.unsupported_actions("continuous actions within bounds")
        made = {"actor": self.actor_network("actor")}
        for critic in self.critics:
            layers = self.config.layers(critic, self.observation_space, like="critic")
            for each in (critic, f"target_{critic}"):
                made[each] = critic_network(self.observation_space, n_dimensions=self.n_dimensions, name=each, **layers)
        return made

    def actor_network(self, name: str) -> keras.Model:
        """Return the network from observations to the parameters of the policy."""
        layers = self.config.layers("actor", self.observation_space)
        return network(self.observation_space, outputs=self.n_dimensions, name=name, **layers)

    @property
    def rowwise(self) -> bool:
        return self.noise is None or isinstance(self.noise, GaussianNoise)  # other kinds of noise have state

    def start(self) -> None:
        super().start()
        config = self.config
        self.noise: Noise | None = None if config.noise is None else make_noise(config.noise, **config.noise_kwargs)
        self._apart: tuple[tuple[int, int], Noise] | None = None  # noise of `sample_actions`, and its (rows, env_steps)

    def act(self, observations: Array, explore: bool = False) -> Array:
        if explore and self.warming_up:
            return self.shaped(self.random_actions(len(observations)))
        actions = self.chosen(observations, explore)  # [N, D]
        if explore and self.noise is not None:
            actions = np.clip(actions + self.noise.sample(actions.shape, self.rng), -1.0, 1.0)
        return self.shaped(np.asarray(actions, np.float32))

    def sample_actions(self, observations: Array) -> Array:
        if self.noise is None or self.rowwise:
            return super().sample_actions(observations)
        of_what = (len(observations), self.env_steps)  # training may have changed the noise since
        if self._apart is None or self._apart[0] != of_what:
            self._apart = of_what, copy.deepcopy(self.noise)
            self._apart[1].reset()
        training, self.noise = self.noise, self._apart[1]
        try:
            return super().sample_actions(observations)
        finally:
            self.noise = training

    @abstractmethod
    def chosen(self, observations: Array, explore: bool) -> Array:
        """Return the policy's actions, [N, D]; with `explore` as in training, before noise is added."""

    def advance(self, env_steps: int) -> None:
        super().advance(env_steps)
        if self.noise is not None:
            self.noise.step(env_steps)

    def restart(self, environments: Array | None) -> None:
        super().restart(environments)
        if self.noise is not None:
            self.noise.reset(environments)

    def check_poolable(self) -> None:
        if not self.rowwise:
            raise ConfigurationError(
                f"{type(self.noise).__name__} has state, and each process of a pool would have its own: choose "
                f"noise='gaussian', or train without a pool."
            )

    def running_state(self) -> dict[str, Any]:
        return {} if self.noise is None else {"noise": self.noise.get_state()}

    def set_running_state(self, state: Mapping[str, Any]) -> None:
        if self.noise is not None and "noise" in state:  # the state of an agent without noise has none
            self.noise.set_state(state["noise"])

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions of an action."""
        return math.prod(self.action_space.shape or ())

    def optimized_networks(self) -> Mapping[str, tuple[str, ...]]:
        return {"critic": self.critics, "actor": ("actor",)}

    def random_actions(self, n: int) -> Array:
        """Draw uniform actions, [n, D] float32."""
        return (2.0 * self.rng.random((n, self.n_dimensions)) - 1.0).astype(np.float32)

    @property
    def warming_up(self) -> bool:
        """Return whether actions are still drawn uniformly."""
        return self.env_steps < self.config.learning_starts

    def shaped(self, actions: Array) -> Array:
        """Reshape actions [N, D] to [N, ...] of the action space."""
        return actions.reshape(-1, *(self.action_space.shape or ()))

    def value(self, critic: str, observations: Any, actions: Any) -> Any:
        """Return a critic's values [B] of observations and actions [B, D]."""
        return self.networks[critic]([observations, actions])[:, 0]

    def smallest(self, critics: tuple[str, ...], observations: Any, actions: Any) -> Any:
        """Return the smallest of the critics' values, [B]."""
        values = [self.value(critic, observations, actions) for critic in critics]
        smallest = values[0]
        for value in values[1:]:
            smallest = ops.minimum(smallest, value)
        return smallest

    def critic_losses(self, batch: dict[str, Any], targets: Any) -> Mapping[str, Any]:
        """Return the summed mean squared errors of all critics; the priority of a row is the mean of its errors."""
        actions = self.flat_actions(batch)
        values = [self.value(critic, batch["observations"], actions) for critic in self.critics]
        losses = [self.mean(batch, ops.square(value - targets)) for value in values]
        errors = [ops.abs(value - targets) for value in values]  # [B] each
        return {
            "critic": sum(losses[1:], losses[0]),
            "q_mean": ops.mean(values[0]),
            "td_error": ops.mean(errors[0]),
            **self.priorities(sum(errors[1:], errors[0]) / len(errors)),
        }

    def flat_actions(self, batch: dict[str, Any]) -> Any:
        """Return the actions of a minibatch, [B, D]."""
        return ops.reshape(batch["actions"], (-1, self.n_dimensions))

    def cloning_scale(self, batch: dict[str, Any]) -> Any:
        """Return the mean absolute value of a minibatch's actions, and at least 1: the scale of the policy's loss."""
        values = self.value(self.critics[0], batch["observations"], self.flat_actions(batch))
        return ops.stop_gradient(ops.maximum(ops.mean(ops.abs(values)), 1.0))

    def cloning_loss(self, batch: dict[str, Any], training: bool = True) -> Any:
        """Return the mean squared distance of the policy's actions from those of a minibatch."""
        actions = self.networks["actor"](batch["observations"], training=training)  # [B, D]
        return ops.mean(ops.square(actions - self.flat_actions(batch)))
