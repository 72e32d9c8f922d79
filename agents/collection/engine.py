"""Base class for the processes of a pool, wherever they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from agents.collection.worker import Array, Task

N_SLOTS = 2
"""Number of slots: one is read while the other is filled."""


class ProcessEnded(Exception):  # noqa: N818 - not an error of the learner
    """A collector process has ended; the message says how."""


class Engine(ABC):
    """Base class for engines, which start collector processes, send requests to them and receive their answers."""

    rows: dict[str, Array]
    """The collected transitions, each [N_SLOTS, T, N, ...]."""

    @abstractmethod
    def start(self, task: Task) -> None:
        """Start the process of a place in the pool, also as the replacement of one that has ended."""

    @abstractmethod
    def publish(self, acting: Sequence[Array]) -> None:
        """Send the acting state to all processes. None of them may be collecting."""

    @abstractmethod
    def ask(self, index: int, method: str, *arguments: Any) -> None:
        """Request a method of a process's `CollectorWorker`; ``collect`` takes a slot and the number of steps."""

    @abstractmethod
    def answer(self, index: int) -> Any:
        """Wait for the answer to the oldest open request.

        Raises:
            ProcessEnded: The process has ended.
            Exception: The error of the method.
        """

    @abstractmethod
    def close(self) -> None:
        """End all processes."""
