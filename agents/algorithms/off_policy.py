"""What agents have in common that learn from a replay."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.backend.tensorflow import ops
from agents.buffers import UniformReplay
from agents.config.agent_config import hyperparameter
from agents.config.buffer_config import ReplayConfig
from agents.config.network_config import NetworkConfig
from agents.contract.keras_agent import KerasAgent
from agents.environments.goals import Goals, goals_of
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import PRIORITIES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(NetworkConfig, ReplayConfig):
    """Hyperparameters of every agent that learns from a replay."""

    gamma: float = hyperparameter(
        0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    tau: float = hyperparameter(
        1.0, "Share of the online network that an update of the target network takes.", above=0.0, high=1.0, live=True
    )
    target_update_interval: int = hyperparameter(
        1, "Gradient steps between updates of the target network.", low=1, search=(1, 100), log=True
    )


class OffPolicyAgent(KerasAgent):
    """An agent that learns from a replay. See `Agent` for the arguments."""

    config_class = OffPolicyConfig
    config: OffPolicyConfig

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> UniformReplay:
        if self.prioritized and self.strategy is not None:
            raise ConfigurationError(
                "replay is 'prioritized', but a strategy does not bring errors back from where rows are learned from: "
                "leave out one of the two."
            )
        return self.config.make_replay(n_envs, rng, lambda: self.goals)

    @property
    def prioritized(self) -> bool:
        """Whether the replay wants to know errors, and gives weights."""
        return self.config.replay == "prioritized"

    def mean(self, batch: dict[str, Any], values: Any) -> Any:
        """The mean of values [B] over a minibatch, weighted so that it is that of rows that are drawn uniformly."""
        return ops.mean(batch["weights"] * values if self.prioritized else values)

    def priorities(self, errors: Any) -> dict[str, Any]:
        """What the loss tells the replay of the errors [B] >= 0 of its rows, where that wants to know."""
        return {PRIORITIES: ops.stop_gradient(errors)} if self.prioritized else {}

    def discounts(self, batch: dict[str, Any]) -> Any:
        """How much the value of where the rewards lead counts, [B]."""
        discount = self.live.gamma ** ops.cast(batch["lengths"], "float32")  # [B]
        going = 1.0 - ops.cast(batch["terminated"], "float32")  # [B] a truncated episode still bootstraps
        return discount * going

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
        """Return targets [B]: rewards plus discounted next values [B], without gradient."""
        return ops.stop_gradient(batch["rewards"] + self.discounts(batch) * next_values)
