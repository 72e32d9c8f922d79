"""Base classes of algorithms for several agents: spaces, networks, and masks of actions and of agents that left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import hyperparameter
from agents.config.network_config import NetworkConfig
from agents.contract.keras_agent import KerasAgent
from agents.environments.joint_space import JointSpace, JointView
from agents.errors import ConfigurationError
from agents.networks.several_agents import agents_network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class JointConfig(NetworkConfig):
    """Base class for configs of agents that train several agents of an environment.

    It comes last among the bases of a config, as `MemoryConfig` does.
    """

    share_parameters: bool = hyperparameter(
        True, "All agents share their networks' weights; needs equal spaces.", search=(True, False)
    )

    def __post_init__(self) -> None:
        """Refuse settings that only a single agent can have."""
        super().__post_init__()
        of_networks = [own.get("convolutions") for own in self.networks.values()]
        if any(each is not None for each in (self.convolutions, *of_networks)):
            raise ConfigurationError("convolutions are for images, which several agents cannot have: leave them out.")
        if getattr(self, "replay", None) == "hindsight":
            raise ConfigurationError(
                "replay='hindsight' is for a single agent with goals: take uniform or prioritized."
            )


class JointAgent(KerasAgent):
    """Base class for agents that train several agents of an environment. See `Agent` for the arguments."""

    config: JointConfig

    @property
    def space(self) -> JointSpace:
        """The joint observation space."""
        return cast("JointSpace", self.observation_space)

    def check_spaces(self) -> None:
        """Check that the environment has several agents, whose spaces are equal where they share parameters.

        Raises:
            ConfigurationError: The environment has a single agent, or agents that share their parameters have
                different spaces.
        """
        space, shared = self.observation_space, self.config.share_parameters
        if not isinstance(space, JointSpace):
            raise ConfigurationError(
                f"{type(self).__name__} trains several agents in one environment, and {self.interface.label!r} has "
                f"one: take an environment of PettingZoo, such as mpe2.simple_spread_v3:parallel_env, or another "
                f"algorithm."
            )
        if shared and (len(set(space.observation_sizes)) > 1 or len(set(space.action_sizes)) > 1):
            kind = "actions" if space.discrete else "dimensions of actions"
            each = zip(space.agents, space.observation_sizes, space.action_sizes, strict=True)
            listed = "; ".join(f"{name}: {n_seen} observations, {n_actions} {kind}" for name, n_seen, n_actions in each)
            raise ConfigurationError(
                f"Agents can share their parameters if their spaces are equal; those of {self.interface.label!r} "
                f"differ ({listed}): set share_parameters=false (--set share_parameters=false)."
            )

    def network_of_agents(
        self, described: str, n_features: int, outputs: int, *, name: str, **arguments: Any
    ) -> keras.Sequential:
        """Return a network of all agents, [B, A, n_features] -> [B, A, outputs].

        Args:
            described: Name of the network in the config, whose layers it has.
            n_features: Features of each agent.
            outputs: Outputs of each agent.
            name: Name of the network.
            arguments: As of `agents_network`.
        """
        settings, config = self.config.layers(described), self.config
        shared: dict[str, Any] = {"shared": config.share_parameters, "memory": config.memory_units, "name": name}
        sizes, activation = settings["hidden_sizes"], settings["activation"]
        return agents_network(
            self.space.n_agents, n_features, sizes, outputs, activation=activation, **shared, **arguments
        )


def mask_numpy(values: Array, view: JointView) -> Array:
    """Return values or logits [..., A, n] with -inf for actions that are not allowed."""
    masked: Array = np.where(view.allowed > 0.0, values, -np.inf)
    return masked


def mask(values: Any, view: JointView) -> Any:
    """Return values or logits [B, A, n] with -inf for actions that are not allowed, without gradients through them."""
    return ops.where(view.allowed > 0.0, values, -np.inf)


def mean_over_agents(values: Any, alive: Any) -> Any:
    """Return the mean of values [B, A] over the agents that are in the episode: a scalar."""
    return ops.sum(values * alive) / ops.maximum(ops.sum(alive), 1.0)


def mean_in_part(values: Any, alive: Any, n_alive: Any) -> Any:
    """Return the mean of values [B, A] over agents for a part of a minibatch: a scalar.

    The mean of parts, weighted by their rows, is `mean_over_agents` of the minibatch, whichever agents left in a part.

    Args:
        values: Of the rows of the part.
        alive: The same rows of the column.
        n_alive: Agents in the episode for each row of the minibatch, on average, [B].
    """
    return ops.sum(values * alive) / ops.sum(n_alive)
