"""What the trainer needs of what it trains: an agent alone, or a population of them."""

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
    """One or more members that act, remember and learn in step. Rows are P * N, member after member.

    `agents.contract.agent.Agent` is one with a single member; see there for what the methods do.
    """

    @property
    def config(self) -> AgentConfig:
        """Hyperparameters; those that all members have in common."""

    @property
    def environment(self) -> EnvironmentSpec | None:
        """What it was made for."""

    @property
    def observation_space(self) -> spaces.Box:
        """What it sees."""

    @property
    def action_space(self) -> spaces.Space[Any]:
        """What it does."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each member."""

    @property
    def members_fail_alone(self) -> bool:
        """Whether the others go on when a member cannot."""

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of each member."""

    def act(self, observations: Array, explore: bool = False) -> Array:
        """An action for each row."""

    def new_buffer(self, n_envs: int, seeds: Sequence[int]) -> Buffer:
        """An empty memory for all members, with `n_envs` environments each."""

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Adds what the loss needs."""

    def update(self, batches: Batches) -> UpdateMetrics:
        """Makes the gradient steps of all members."""

    def advance(self, env_steps: int) -> None:
        """Is told of `env_steps` more steps of each member."""

    def refresh(self) -> None:
        """Is told that networks may have been changed by somebody else."""

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Changes a live hyperparameter of one member, or of all."""

    def select(self, positions: Sequence[int]) -> None:
        """Goes on with these members only, in this order."""

    def get_state(self) -> dict[str, Any]:
        """Everything that changes in training."""

    def set_state(self, state: Any) -> None:
        """Goes on where `get_state` was called."""
