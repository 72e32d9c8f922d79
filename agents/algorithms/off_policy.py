"""Base class for off-policy agents."""

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
    """Base class for hyperparameters of off-policy agents."""

    gamma: float = hyperparameter(
        0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    tau: float = hyperparameter(
        1.0, "Share of the online network in an update of the target network.", above=0.0, high=1.0, live=True
    )
    target_update_interval: int = hyperparameter(
        1, "Gradient steps between updates of the target network.", low=1, search=(1, 100), log=True
    )


class OffPolicyAgent(KerasAgent):
    """Base class for agents that learn from a replay buffer. See `Agent` for the arguments."""

    config_class = OffPolicyConfig
    config: OffPolicyConfig

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> UniformReplay:
        if self.prioritized and self.strategy is not None:
            raise ConfigurationError(
                "replay is 'prioritized', but a strategy does not bring errors back from the replicas: "
                "leave out one of the two."
            )
        return self.config.make_replay(n_envs, rng, lambda: self.goals)

    @property
    def prioritized(self) -> bool:
        """Return whether the replay buffer uses errors as priorities, and gives weights."""
        return self.config.replay == "prioritized"

    def mean(self, batch: dict[str, Any], values: Any) -> Any:
        """Return the mean of values [B] over a minibatch, weighted as if rows were drawn uniformly."""
        return ops.mean(batch["weights"] * values if self.prioritized else values)

    def priorities(self, errors: Any) -> dict[str, Any]:
        """Return the loss entry with the priorities of errors [B] >= 0, if the replay buffer is prioritized."""
        return {PRIORITIES: ops.stop_gradient(errors)} if self.prioritized else {}

    def discounts(self, batch: dict[str, Any]) -> Any:
        """Return the discounts of the next values, [B]."""
        discount = self.hyperparameters.gamma ** ops.cast(batch["lengths"], "float32")  # [B]
        going = 1.0 - ops.cast(batch["terminated"], "float32")  # [B] a truncated episode still bootstraps
        return discount * going

    @functools.cached_property
    def goals(self) -> Goals:
        """Return what hindsight needs from the environment."""
        if self.environment is None:
            raise ConfigurationError(
                "replay='hindsight' needs an environment, and the agent was made without one: pass environment."
            )
        return goals_of(self.environment.make(), self.environment.label, self.config.goal_function)

    def start(self) -> None:
        if self.config.replay == "hindsight":
            _ = self.goals  # computed here, so that members of a population share it

    def bootstrapped(self, batch: dict[str, Any], next_values: Any) -> Any:
        """Return targets [B]: rewards plus discounted next values [B], without gradient."""
        return ops.stop_gradient(batch["rewards"] + self.discounts(batch) * next_values)
