"""What algorithms for several agents share: their spaces, and the masks of actions and of agents that have left."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.backend.tensorflow import ops
from agents.contract.agent import Agent
from agents.environments.joint_space import JointSpace, JointView
from agents.environments.transforms import space_text
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


def joint_space_of(agent: Agent) -> JointSpace:
    """Return the joint observation space of an agent.

    Raises:
        ConfigurationError: The environment has a single agent.
    """
    space = agent.observation_space
    if not isinstance(space, JointSpace):
        raise ConfigurationError(
            f"{type(agent).__name__} trains several agents in one environment, and {agent.interface.label!r} has one: "
            f"take an environment of PettingZoo, such as mpe2.simple_spread_v3:parallel_env, or another algorithm."
        )
    return space


def require_discrete(agent: Agent, space: JointSpace, instead: str) -> None:
    """Raise `ConfigurationError`, which names `instead`, unless the actions of all agents are discrete."""
    if not space.discrete:
        actions = space_text(agent.interface.actions)
        raise ConfigurationError(
            f"{type(agent).__name__} takes discrete actions, and those of {agent.interface.label!r} are continuous "
            f"({actions}); {instead} take these."
        )


def require_equal_agents(agent: Agent, space: JointSpace) -> None:
    """Raise `ConfigurationError` where agents that share their parameters have different spaces."""
    if len(set(space.observation_sizes)) > 1 or len(set(space.action_sizes)) > 1:
        kind = "actions" if space.discrete else "dimensions of actions"
        listed = "; ".join(
            f"{name}: {n_features} observations, {n_actions} {kind}"
            for name, n_features, n_actions in zip(
                space.agents, space.observation_sizes, space.action_sizes, strict=True
            )
        )
        raise ConfigurationError(
            f"Agents can share their parameters if their spaces are equal; those of {agent.interface.label!r} differ "
            f"({listed}): set share_parameters=false (--set share_parameters=false)."
        )


def require_shared_memory(agent: Agent, *, shared: bool, memory: bool) -> None:
    """Raise `ConfigurationError` for networks with memory whose weights the agents do not share."""
    if memory and not shared:
        raise ConfigurationError(
            f"gru_units needs agents that share their parameters, for {type(agent).__name__}: leave out one of "
            f"gru_units and share_parameters=false."
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
