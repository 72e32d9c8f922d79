"""What agents have in common that learn from a replay, and those of them whose actions are continuous."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from agents.backend import keras, ops
from agents.config import hyperparameter
from agents.environments.goals import Goals, goals_of
from agents.errors import ConfigurationError, unknown_name
from agents.keras_agent import KerasAgent
from agents.network_config import NetworkConfig
from agents.networks import critic_network, network
from agents.replay import HindsightReplay, UniformReplay
from agents.replay.hindsight import STRATEGIES

Array = np.ndarray[Any, Any]

REPLAYS = ("uniform", "hindsight")


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(NetworkConfig):
    """Hyperparameters of every agent that learns from a replay."""

    buffer_size: int = hyperparameter(50_000, "Transitions kept in the replay.", low=2)
    learning_starts: int = hyperparameter(1_000, "Environment steps before the first update.", low=0)
    batch_size: int = hyperparameter(64, "Rows a minibatch.", low=1, search=(32, 64, 128, 256))
    train_freq: int = hyperparameter(1, "Steps of the environments between updates.", low=1, search=(1, 4, 16))
    gradient_steps: int = hyperparameter(1, "Gradient steps an update.", low=1, search=(1, 2, 4))
    n_step: int = hyperparameter(1, "Steps until the bootstrap.", low=1, search=(1, 3, 5))
    gamma: float = hyperparameter(
        0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    tau: float = hyperparameter(
        1.0, "Share of the online network that an update of the target network takes.", above=0.0, high=1.0, live=True
    )
    target_update_interval: int = hyperparameter(
        1, "Gradient steps between updates of the target network.", low=1, search=(1, 100), log=True
    )
    replay: str = hyperparameter(
        "uniform", "Which replay: uniform; or hindsight, which also learns for goals that were reached by chance."
    )
    n_sampled_goal: int = hyperparameter(
        4, "Hindsight: transitions with another goal for each one that keeps its own.", low=0, search=(2, 8)
    )
    goal_selection_strategy: str = hyperparameter(
        "future", "Hindsight: goals reached later in the episode (future), at its end (final), or anywhere (episode)."
    )
    goal_function: str | None = hyperparameter(
        None,
        "Hindsight: module:function that gives rewards [M] and ends [M] for reached and wanted goals [M, G]; null: "
        "the environment's compute_reward and compute_terminated.",
    )

    def __post_init__(self) -> None:
        """Refuses what contradicts itself."""
        super().__post_init__()
        if self.buffer_size // self.n_envs <= self.n_step:
            raise ConfigurationError(
                f"buffer_size must be more than n_envs * n_step = {self.n_envs * self.n_step}, got {self.buffer_size}."
            )
        if self.replay not in REPLAYS:
            raise unknown_name("replay", self.replay, REPLAYS)
        if self.goal_selection_strategy not in STRATEGIES:
            raise unknown_name("goal_selection_strategy", self.goal_selection_strategy, STRATEGIES)
        if self.replay == "hindsight" and self.n_step > 1:
            raise ConfigurationError(
                f"n_step must be 1 with replay='hindsight' (rewards of several steps would have to be computed anew), "
                f"got {self.n_step}."
            )
        if self.replay != "hindsight" and self.goal_function is not None:
            raise ConfigurationError("goal_function needs replay='hindsight'.")


class OffPolicyAgent(KerasAgent):
    """An agent that learns from a replay. See `Agent` for the arguments."""

    config_class = OffPolicyConfig
    config: OffPolicyConfig

    def make_memory(self, n_envs: int, rng: np.random.Generator) -> UniformReplay:
        config = self.config
        shared: dict[str, Any] = {
            "buffer_size": config.buffer_size,
            "batch_size": config.batch_size,
            "learning_starts": config.learning_starts,
            "train_freq": config.train_freq,
            "gradient_steps": config.gradient_steps,
            "n_step": config.n_step,
            "gamma": config.gamma,
            "n_envs": n_envs,
            "rng": rng,
        }
        if config.replay == "uniform":
            return UniformReplay(**shared)
        return HindsightReplay(
            goals=self.goals,
            n_sampled_goal=config.n_sampled_goal,
            strategy=config.goal_selection_strategy,
            **shared,
        )

    @functools.cached_property
    def goals(self) -> Goals:
        """What hindsight needs to know of the environment."""
        if self.environment is None:
            raise ConfigurationError(
                "replay='hindsight' needs to know the environment, and the agent was made without one."
            )
        return goals_of(self.environment.make(), self.environment.label, self.config.goal_function)

    def start(self) -> None:
        if self.config.replay == "hindsight":
            _ = self.goals  # here, so that members of a population find it

    def bootstrapped(self, batch: dict[str, Any], next_values: Any) -> Any:
        """Targets [B]: the rewards, and the discounted values [B] of where they lead; no gradient goes through."""
        discount = self.live.gamma ** ops.cast(batch["lengths"], "float32")  # [B]
        going = 1.0 - ops.cast(batch["terminated"], "float32")  # [B] a truncated episode still bootstraps
        return ops.stop_gradient(batch["rewards"] + discount * going * next_values)


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(OffPolicyConfig):
    """Hyperparameters of the off-policy agents whose actions are continuous."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3, "Step size of the optimizers.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    buffer_size: int = hyperparameter(1_000_000, "Transitions kept in the replay.", low=2)
    learning_starts: int = hyperparameter(
        100, "Environment steps before the first update; actions are drawn uniformly until then.", low=0
    )
    batch_size: int = hyperparameter(256, "Rows a minibatch.", low=1, search=(64, 128, 256, 512))
    tau: float = hyperparameter(
        0.005,
        "Share of the online networks that an update of the target networks takes.",
        above=0.0,
        high=1.0,
        live=True,
        search=(0.001, 0.08),
        log=True,
    )
    target_update_interval: int = hyperparameter(1, "Gradient steps between updates of the targets.", low=1)
    hidden_sizes: tuple[int, ...] = hyperparameter((256, 256), "Units of the hidden layers of each network.")

    separate_rates: ClassVar[tuple[str, ...]] = ("actor", "critic")


class ContinuousAgent(OffPolicyAgent):
    """An off-policy agent with an actor and critics of observation and action. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not continuous, or have no bounds.
    """

    config_class = ContinuousConfig
    config: ContinuousConfig
    critics: ClassVar[tuple[str, ...]]
    """Names of the critics; each has a target network, ``target_`` and its name."""

    def build(self) -> Mapping[str, keras.Model]:
        name, space = type(self).__name__, self.action_space
        if not isinstance(space, spaces.Box):
            raise ConfigurationError(f"{name} takes continuous actions, not {space}; DQN, PPO and A2C take these.")
        if not space.is_bounded():
            raise ConfigurationError(f"{name} takes actions within bounds, not {space}; PPO and A2C take these.")
        made = {"actor": self.actor_network("actor")}
        for critic in self.critics:
            layers = self.config.layers(critic)
            for each in (critic, f"target_{critic}"):
                made[each] = critic_network(self.observation_space, n_dimensions=self.n_dimensions, name=each, **layers)
        return made

    def actor_network(self, name: str) -> keras.Model:
        """A network from observations to what the policy needs."""
        return network(self.observation_space, outputs=self.n_dimensions, name=name, **self.config.layers("actor"))

    @property
    def n_dimensions(self) -> int:
        """Dimensions of an action."""
        return math.prod(self.action_space.shape or ())

    def optimized_networks(self) -> Mapping[str, tuple[str, ...]]:
        return {"critic": self.critics, "actor": ("actor",)}

    def random_actions(self, n: int) -> Array:
        """Uniform ones, [n, D] float32."""
        return (2.0 * self.rng.random((n, self.n_dimensions)) - 1.0).astype(np.float32)

    @property
    def warming_up(self) -> bool:
        """Whether actions are still drawn uniformly."""
        return self.env_steps < self.config.learning_starts

    def shaped(self, actions: Array) -> Array:
        """[N, D] -> [N, ...] as the action space has it."""
        return actions.reshape(-1, *(self.action_space.shape or ()))

    def value(self, critic: str, observations: Any, actions: Any) -> Any:
        """[B] values of observations and actions [B, D]."""
        return self.networks[critic]([observations, actions])[:, 0]

    def smallest(self, critics: tuple[str, ...], observations: Any, actions: Any) -> Any:
        """[B] the smallest of the critics' values."""
        values = [self.value(critic, observations, actions) for critic in critics]
        smallest = values[0]
        for value in values[1:]:
            smallest = ops.minimum(smallest, value)
        return smallest

    def critic_losses(self, batch: dict[str, Any], targets: Any) -> Mapping[str, Any]:
        """Mean squared errors of all critics, summed."""
        actions = self.flat_actions(batch)
        values = [self.value(critic, batch["observations"], actions) for critic in self.critics]
        losses = [ops.mean(ops.square(value - targets)) for value in values]
        return {
            "critic": sum(losses[1:], losses[0]),
            "q_mean": ops.mean(values[0]),
            "td_error": ops.mean(ops.abs(values[0] - targets)),
        }

    def flat_actions(self, batch: dict[str, Any]) -> Any:
        """The actions of a minibatch, [B, D]."""
        return ops.reshape(batch["actions"], (-1, self.n_dimensions))
