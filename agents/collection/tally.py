"""Returns of each agent within an episode, for environments with several agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.environments.joint_space import JointSpace

Array = np.ndarray[Any, Any]


class Tally:
    """Further numbers of an episode than its return: none, for environments with a single agent."""

    def add(self, successors: Array) -> None:
        """Count one step of all copies; successors are [N, ...]."""

    def end(self, copy: int) -> dict[str, float]:
        """Return the numbers of the episode that has ended in a copy, and begin the next one."""
        return {}

    def select(self, copies: Sequence[int]) -> None:
        """Keep only these copies, in this order."""

    def reset(self) -> None:
        """Begin new episodes in all copies."""

    def get_state(self) -> Array | None:
        """Return the numbers of the running episodes."""
        return None

    def set_state(self, state: Array | None) -> None:
        """Restore a state of `get_state`."""


class AgentReturns(Tally):
    """The return of each agent, ``return/NAME``.

    Args:
        space: The joint observations.
        n: Number of copies, N.
    """

    def __init__(self, space: JointSpace, n: int) -> None:
        self._space = space
        self._returns = np.zeros((n, space.n_agents))

    def add(self, successors: Array) -> None:
        self._returns += self._space.view(successors).rewards

    def end(self, copy: int) -> dict[str, float]:
        own = self._returns[copy].tolist()
        self._returns[copy] = 0.0
        return {f"return/{agent}": value for agent, value in zip(self._space.agents, own, strict=True)}

    def select(self, copies: Sequence[int]) -> None:
        self._returns = self._returns[list(copies)]

    def reset(self) -> None:
        self._returns[:] = 0.0

    def get_state(self) -> Array:
        return self._returns.copy()

    def set_state(self, state: Array | None) -> None:
        if state is not None:
            self._returns = state.copy()


def tally_of(space: Any, n: int) -> Tally:
    """Return the tally for `n` copies of an environment with this observation space."""
    return AgentReturns(space, n) if isinstance(space, JointSpace) else Tally()
