"""Small games whose best policies are known, for tests and comparisons of algorithms for several agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]
Answer = tuple[tuple[Array, ...], Any, bool, bool, dict[str, Any]]


class MatrixGame(gym.Env[Any, Any]):
    """Game of one step for two agents with a common payoff.

    Args:
        payoffs: [n, m]: payoff of the team for the actions of both. Defaults to the climbing game of Claus and
            Boutilier 1998, whose best pair of actions (11) lies beside the worst (-30): careful agents take 5 or 7.
    """

    def __init__(self, payoffs: Sequence[Sequence[float]] = ((11, -30, 0), (-30, 7, 6), (0, 0, 5))) -> None:
        self._payoffs = np.asarray(payoffs, np.float64)
        seen = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Tuple([seen, seen])
        self.action_space = spaces.Tuple([spaces.Discrete(n) for n in self._payoffs.shape])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game; there is one state."""
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Sequence[int]) -> Answer:
        """Return half of the payoff as the reward of each agent."""
        half = float(self._payoffs[tuple(action)]) / 2.0
        return self._seen(), [half, half], True, False, {}

    @staticmethod
    def _seen() -> tuple[Array, ...]:
        return (np.ones(1, np.float32),) * 2


class TwoStepGame(gym.Env[Any, Any]):
    """The two-step game of QMIX (Rashid et al. 2018, arXiv 1803.11485, section 5).

    In the first step, the action of the first agent chooses one of two matrices: of 7 whatever both do, or of 0, 1, 1
    and 8. Agents that are valued one by one take the safe 7; the best return is 8. Rewards are those of the team, half
    for each agent.
    """

    PAYOFFS = (((7, 7), (7, 7)), ((0, 1), (1, 8)))

    def __init__(self) -> None:
        seen = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.observation_space = spaces.Tuple([seen, seen])
        self.action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])
        self._state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        super().reset(seed=seed)
        self._state = 0
        return self._seen(), {}

    def step(self, action: Sequence[int]) -> Answer:
        """Choose the matrix, then play it."""
        if self._state == 0:
            self._state = 1 + int(action[0])
            return self._seen(), [0.0, 0.0], False, False, {}
        half = self.PAYOFFS[self._state - 1][action[0]][action[1]] / 2.0
        return self._seen(), [half, half], True, False, {}

    def _seen(self) -> tuple[Array, ...]:
        state = np.eye(3, dtype=np.float32)[self._state]
        return state, state
