"""What a memory is to the trainer: it takes transitions, says when an update is due, and gives its minibatches.

On-policy and off-policy learning differ in nothing else: a rollout is due when it is full and gives every
transition several times; a replay is due every few steps and gives a sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Transition(NamedTuple):
    """One step of N environments."""

    observations: Array  # [N, ...]
    actions: Array  # [N] or [N, D]
    rewards: Array  # [N]
    next_observations: Array  # [N, ...] true successors
    terminated: Array  # [N] bool: the environment ended the episode; nothing comes after it
    truncated: Array  # [N] bool: the episode was cut off; its value goes on


class Batches(NamedTuple):
    """Data for K gradient steps.

    `data[name][indices[k]]` is minibatch k, so that epochs over the same rows need no copies.
    """

    data: dict[str, Array]  # each [M, ...]
    indices: Array  # [K, B] int32

    @property
    def contiguous(self) -> bool:
        """Whether the minibatches are simply the rows in order."""
        size = self.indices.size
        return len(next(iter(self.data.values()))) == size and bool((self.indices.ravel() == np.arange(size)).all())


class Memory(ABC):
    """Takes transitions and gives minibatches. Owns its random generator."""

    @abstractmethod
    def add(self, transition: Transition) -> None:
        """Stores one step of all N environments."""

    @property
    @abstractmethod
    def due(self) -> bool:
        """Whether an update should happen now."""

    @abstractmethod
    def take(self) -> dict[str, Array]:
        """The data of the update that is due; the memory then waits for the next one.

        Arrays are ``[T, N, ...]`` in time order for a rollout and ``[M, ...]`` rows for a replay.
        """

    @abstractmethod
    def batches(self, data: dict[str, Array]) -> Batches:
        """Splits what `take` gave (and the agent prepared) into minibatches."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Everything that is stored, counters and generator included, as arrays and plain values."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on exactly where `get_state` was called."""

    def set_hyperparameter(self, name: str, value: float) -> None:  # noqa: B027 - most memories have none
        """Takes a changed live number, where the memory uses it."""
