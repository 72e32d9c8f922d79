"""Protocol of what a trainer trains: a single agent, or a population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from agents.buffers import Batches, Buffer
from agents.config.agent_config import AgentConfig
from agents.contract.agent import UpdateMetrics
from agents.environments import EnvironmentSpec

Array = np.ndarray[Any, Any]


class Learner(Protocol):
    """One or more members that act, store and learn in step. Rows are P * N, member after member.

    `agents.contract.agent.Agent` is a learner with one member, and documents the methods.
    """

    @property
    def config(self) -> AgentConfig:
        """The hyperparameters; of a population, those that all members share."""

    @property
    def environment(self) -> EnvironmentSpec | None:
        """The environment that the learner is made for."""

    @property
    def observation_space(self) -> spaces.Box:
        """The space of observations."""

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The space of actions."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each member."""

    @property
    def members_fail_alone(self) -> bool:
        """True if the other members continue when one member fails."""

    @property
    def gradient_steps(self) -> int:
        """The number of gradient steps of each member."""

    def act(self, observations: Array, explore: bool = False) -> Array:
        """Return an action for each row."""

    def new_buffer(self, n_envs: int, seeds: Sequence[int]) -> Buffer:
        """Return an empty buffer for all members, with `n_envs` environments each."""

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add the inputs of the loss."""

    def update(self, batches: Batches) -> UpdateMetrics:
        """Make the gradient steps of all members."""

    def advance(self, env_steps: int) -> None:
        """Count `env_steps` further environment steps of each member."""

    def refresh(self) -> None:
        """Refresh copies of weights after a change from outside."""

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Change a mutable hyperparameter of one member, or of all."""

    def select(self, positions: Sequence[int]) -> None:
        """Keep these members only, in this order."""

    def get_state(self) -> dict[str, Any]:
        """Return all state that training changes."""

    def set_state(self, state: Any) -> None:
        """Restore a state of `get_state`."""
