"""Observation space of several agents that share an environment: one vector for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]


class JointView(NamedTuple):
    """Parts of joint observations [..., W]; all are views, for NumPy arrays and for tensors."""

    observations: Any  # [..., A, F] zeros behind the end of shorter ones, and for agents that have left
    state: Any  # [..., S] global state; the joined observations where the environment has no state
    allowed: Any  # [..., A, n] 1 where an action is allowed; None for continuous actions
    alive: Any  # [..., A] 1 until the agent has left the episode
    rewards: Any  # [..., A] reward of each agent for the step that led here, 0 at a reset


class JointSpace(spaces.Box):
    """Space of vectors [W] with the observations of all A agents of an environment, and what else they learn from.

    The parts of a vector, in order: observations [A, F], global state [S], allowed actions [A, n], alive [A] and
    rewards [A]; `view` returns them. `F` and `n` are the largest of all agents.

    Args:
        agents: Names of the agents.
        observation_sizes: Length of each agent's observation.
        action_sizes: Number of actions of each agent, or the dimensions of its continuous actions.
        discrete: Whether actions are discrete.
        state_size: Length of the global state, or 0 without one.

    Attributes:
        has_opponents: Whether other policies replace the actions of some agents (`Opponents`).
    """

    has_opponents = False

    def __init__(
        self,
        agents: Sequence[str],
        observation_sizes: Sequence[int],
        action_sizes: Sequence[int],
        *,
        discrete: bool,
        state_size: int = 0,
    ) -> None:
        self.agents = tuple(agents)
        self.observation_sizes, self.action_sizes = tuple(observation_sizes), tuple(action_sizes)
        self.discrete, self.state_size = discrete, state_size
        n_agents, self.n_features, self.n_actions = len(self.agents), max(observation_sizes), max(action_sizes)
        sizes = [n_agents * self.n_features, state_size, n_agents * self.n_actions * discrete, n_agents, n_agents]
        self.ends = tuple(int(end) for end in np.cumsum(sizes))
        super().__init__(-np.inf, np.inf, (self.ends[-1],), np.float32)

    @property
    def n_agents(self) -> int:
        """Number of agents, A."""
        return len(self.agents)

    @property
    def central_size(self) -> int:
        """Length of the state that a central critic sees: the global state, or all observations."""
        return self.state_size or self.n_agents * self.n_features

    @cached_property
    def existing(self) -> Array:
        """Return 1 for each action, or dimension of actions, that an agent has, and 0 for padding: [A, n] float32."""
        sizes = np.array(self.action_sizes)[:, None]
        return (np.arange(self.n_actions) < sizes).astype(np.float32)

    def view(self, vectors: Any) -> JointView:
        """Return the parts of joint observations [..., W]: NumPy arrays, or tensors [B, W]."""
        one, two, three, four, _ = self.ends
        lead = tuple(vectors.shape[:-1]) if isinstance(vectors, np.ndarray) else (-1,)
        reshape = np.reshape if isinstance(vectors, np.ndarray) else _reshape_tensor
        return JointView(
            reshape(vectors[..., :one], (*lead, self.n_agents, self.n_features)),
            vectors[..., one:two] if self.state_size else vectors[..., :one],
            reshape(vectors[..., two:three], (*lead, self.n_agents, self.n_actions)) if self.discrete else None,
            vectors[..., three:four],
            vectors[..., four:],
        )

    def split_actions(self, actions: Array) -> Array:
        """Return joint actions by agent, [..., A, D]: [..., A] numbers (D = 1), or the dimensions of all agents."""
        if self.discrete:
            return actions[..., None]
        split = np.zeros((*actions.shape[:-1], self.n_agents, self.n_actions), np.float32)
        ends = np.cumsum(self.action_sizes).tolist()
        for i, (end, size) in enumerate(zip(ends, self.action_sizes, strict=True)):
            split[..., i, :size] = actions[..., end - size : end]
        return split

    def join_actions(self, actions: Array) -> Array:
        """Return actions by agent [..., A, D] as joint actions; the inverse of `split_actions`."""
        if self.discrete:
            return actions[..., 0]
        return np.concatenate([actions[..., i, :size] for i, size in enumerate(self.action_sizes)], axis=-1)

    def __repr__(self) -> str:
        kind = "actions" if self.discrete else "dimensions of actions"
        return (
            f"JointSpace({', '.join(self.agents)}; observations {list(self.observation_sizes)}, "
            f"{kind} {list(self.action_sizes)}, state {self.state_size})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JointSpace) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.agents, self.observation_sizes, self.action_sizes, self.discrete, self.state_size


def _reshape_tensor(tensor: Any, shape: tuple[int, ...]) -> Any:
    from keras import ops

    return ops.reshape(tensor, shape)
