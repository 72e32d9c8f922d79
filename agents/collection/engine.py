"""What a pool's processes are to its collector, wherever they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from agents.collection.worker import Array, Task

N_SLOTS = 2
"""One is served while the other is filled."""


class Gone(Exception):  # noqa: N818 - what it tells is no error of the learner's
    """A process is gone; says how it ended."""


class Engine(ABC):
    """Starts processes, asks them and hears them."""

    rows: dict[str, Array]
    """What was collected: each [N_SLOTS, T, N, ...]."""

    @abstractmethod
    def start(self, task: Task) -> None:
        """Start the process of a place in the pool, or another one in place of one that is gone."""

    @abstractmethod
    def publish(self, acting: Sequence[Array]) -> None:
        """Give all processes what they act with. None of them may be collecting."""

    @abstractmethod
    def ask(self, index: int, method: str, *arguments: Any) -> None:
        """Ask a process for a method of its `Part`; ``collect`` takes a slot and the number of steps."""

    @abstractmethod
    def answer(self, index: int) -> Any:
        """Wait for the answer to the oldest question that has none.

        Raises:
            Gone: The process has ended.
            Exception: What the method raised.
        """

    @abstractmethod
    def close(self) -> None:
        """End all processes."""
