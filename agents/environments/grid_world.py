"""A grid of numbered cells with goals, whose transitions are known.

Importing this module registers ``GridWorld-v0``; the id ``agents.environments.grid_world:GridWorld-v0`` imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Rows and columns that each action moves: left, down, right, up, as in Gymnasium's FrozenLake."""


class GridWorld(gym.Env[Any, Any]):
    """Environment of cells in a grid: each action moves to a neighbouring cell, and sometimes to another than it aims
    at.

    The observation is the number of the cell, row by row. A move against the border or an obstacle leads nowhere. An
    episode terminates in a goal; ``GridWorld-v0`` truncates it after 100 steps.

    Args:
        rows: >= 1. Defaults to 10.
        columns: >= 1. Defaults to 10.
        slip: Probability that a move goes aside, to the left or the right of its direction equally often; 0 to 1.
            Defaults to 0.1.
        goals: Row, column and reward of each goal, which ends the episode. Defaults to 1 in the last cell and 0.5 in
            the upper right corner.
        obstacles: Row and column of each cell that cannot be entered. Defaults to none.
        start: Row and column of the first cell. Defaults to the first cell; None draws it from all that are neither
            goals nor obstacles.
        step_reward: Reward of a step that reaches no goal. Defaults to -0.02.

    Attributes:
        P: State -> action -> list of (probability, next state, reward, terminated), as Gymnasium's toy-text
            environments have it.
        initial_state_distrib: [S] probabilities of the first cell.
        state_rewards: [S] rewards of entering each cell.

    Raises:
        ValueError: A cell is outside of the grid, or used twice; or another argument is out of range.
    """

    def __init__(
        self,
        *,
        rows: int = 10,
        columns: int = 10,
        slip: float = 0.1,
        goals: Sequence[Sequence[float]] | None = None,
        obstacles: Sequence[Sequence[int]] = (),
        start: Sequence[int] | None = (0, 0),
        step_reward: float = -0.02,
    ) -> None:
        for name, size in (("rows", rows), ("columns", columns)):
            if size < 1:
                raise ValueError(f"{name} must be >= 1, got {size}")
        if not 0.0 <= slip <= 1.0:
            raise ValueError(f"slip must be between 0 and 1, got {slip}")
        self.rows, self.columns, self.slip = rows, columns, slip
        if goals is None:
            goals = ((rows - 1, columns - 1, 1.0), (0, columns - 1, 0.5))
        self._goals = {self._cell("goal", row, column): float(reward) for row, column, reward in goals}
        self._obstacles = {self._cell("obstacle", *cell) for cell in obstacles}
        if len(self._goals) < len(goals) or self._goals.keys() & self._obstacles:
            raise ValueError(
                f"goals and obstacles must be different cells, got goals {goals} and obstacles {obstacles}"
            )
        n_states = rows * columns
        self.observation_space, self.action_space = spaces.Discrete(n_states), spaces.Discrete(len(MOVES))
        self.state_rewards = np.full(n_states, float(step_reward))
        for cell, reward in self._goals.items():
            self.state_rewards[cell] = reward
        self.initial_state_distrib = self._beginning(start)
        self.P = {
            cell: {action: self._outcomes(cell, action) for action in range(len(MOVES))} for cell in range(n_states)
        }
        self._at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Draw the first cell."""
        super().reset(seed=seed)
        self._at = int(self.np_random.choice(len(self.initial_state_distrib), p=self.initial_state_distrib))
        return self._at, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Move."""
        outcomes = self.P[self._at][int(action)]
        chosen = self.np_random.choice(len(outcomes), p=[probability for probability, *_ in outcomes])
        _, self._at, reward, terminated = outcomes[chosen]
        return self._at, reward, terminated, False, {}

    def _cell(self, name: str, row: float, column: float) -> int:
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise ValueError(f"{name} must be in a grid of {self.rows} x {self.columns} cells, got {(row, column)}")
        return int(row) * self.columns + int(column)

    def _beginning(self, start: Sequence[int] | None) -> Array:
        free = [
            cell for cell in range(self.rows * self.columns) if cell not in self._goals and cell not in self._obstacles
        ]
        chosen = free if start is None else [self._cell("start", *start)]
        if not free or chosen[0] not in free:
            raise ValueError(f"start must be a cell that is neither a goal nor an obstacle, got {start}")
        result = np.zeros(self.rows * self.columns)
        result[chosen] = 1.0 / len(chosen)
        return result

    def _outcomes(self, cell: int, action: int) -> list[tuple[float, int, float, bool]]:
        """Return (probability, next cell, reward, terminated) of each cell that an action may lead to."""
        if cell in self._goals or cell in self._obstacles:
            return [(1.0, cell, 0.0, True)]
        turns = ((0, 1.0 - self.slip), (-1, self.slip / 2.0), (1, self.slip / 2.0))
        chances: dict[int, float] = {}
        for turn, chance in turns:
            if chance > 0.0:
                following = self._beside(cell, MOVES[(action + turn) % len(MOVES)])
                chances[following] = chances.get(following, 0.0) + chance
        return [
            (chance, cell, float(self.state_rewards[cell]), cell in self._goals) for cell, chance in chances.items()
        ]

    def _beside(self, cell: int, move: tuple[int, int]) -> int:
        """Return the cell that a move leads to."""
        row, column = (place + step for place, step in zip(divmod(cell, self.columns), move, strict=True))
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            return cell
        following = row * self.columns + column
        return cell if following in self._obstacles else following


gym.register(id="GridWorld-v0", entry_point="agents.environments.grid_world:GridWorld", max_episode_steps=100)
