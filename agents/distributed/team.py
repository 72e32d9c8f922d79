"""Protocols of strategies with several processes: a team, and the agents that it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agents.buffers import Batches

Update = Callable[[Batches], tuple[dict[str, Any], Any]]
"""Makes an update: returns the values of the loss at each gradient step, and flat values of the watched variables."""


class Built(Protocol):
    """An agent of Keras models, as strategies use it (`agents.KerasAgent`)."""

    team: Any

    def should_use_xla(self, n_rows: int) -> bool:
        """Return whether XLA pays for single gradient steps of so many rows."""

    def learnable(self) -> Any:
        """Return the parts that learn."""

    def compilation(self) -> dict[str, Any]:
        """Return the arguments of its compiled update."""

    def state_variables(self) -> list[Any]:
        """Return all variables of its state."""


class Buildable(Protocol):
    """An agent as data (`agents.AgentSpec`)."""

    def build(self, seed: int) -> Any:
        """Build the agent."""


class Team(Protocol):
    """The worker processes that learn together with this process."""

    def update_of(self, agent: Built, watched: Sequence[Any]) -> Update:
        """Return the update of an agent that also returns the values of the watched variables."""
