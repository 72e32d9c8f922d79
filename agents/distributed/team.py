"""What strategies with several processes have in common: a team, and the agents that it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agents.buffers import Batches

Update = Callable[[Batches], tuple[dict[str, Any], Any]]
"""Makes an update: gives what the loss named at each gradient step, and flat values of the watched variables."""


class Built(Protocol):
    """An agent of Keras models, as strategies use it (`agents.KerasAgent`)."""

    team: Any

    def xla_pays(self, n_steps: int) -> bool:
        """Return whether compiling an update of so many gradient steps with XLA pays off."""

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
    """The processes that learn together with this one."""

    def update_of(self, agent: Built, watched: Sequence[Any]) -> Update:
        """Returns what makes an update of an agent, with the variables that are watched."""
