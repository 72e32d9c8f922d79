"""Tests of the grid of numbered cells: transitions by hand, steps against the table, refused grids."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import agents
from agents.environments.grid_world import GridWorld

LEFT, DOWN, RIGHT, UP = range(4)

# The cells of a grid of 2 x 3:   0 1 2
#                                 3 4 5


def small(**options: Any) -> GridWorld:
    return GridWorld(**{"rows": 2, "columns": 3, "goals": [[1, 2, 7.0]], "slip": 0.0, "step_reward": -1.0, **options})


def test_moves_by_hand():
    grid = small()
    moved = {cell: [grid.P[cell][action][0][1] for action in range(4)] for cell in range(5)}
    assert moved == {0: [0, 3, 1, 0], 1: [0, 4, 2, 1], 2: [1, 5, 2, 2], 3: [3, 3, 4, 0], 4: [3, 4, 5, 1]}
    assert grid.P[4][RIGHT] == [(1.0, 5, 7.0, True)]
    assert grid.P[4][UP] == [(1.0, 1, -1.0, False)]
    assert [grid.P[5][action] for action in range(4)] == [[(1.0, 5, 0.0, True)]] * 4


def test_slips_go_aside():
    grid = small(slip=0.2)
    assert sorted(grid.P[4][RIGHT]) == [(0.1, 1, -1.0, False), (0.1, 4, -1.0, False), (0.8, 5, 7.0, True)]
    assert sorted(grid.P[0][LEFT]) == [(0.1, 3, -1.0, False), (0.9, 0, -1.0, False)]  # up leads nowhere either
    assert sorted(small(slip=1.0).P[1][LEFT]) == [(0.5, 1, -1.0, False), (0.5, 4, -1.0, False)]


def test_obstacles_are_never_entered():
    grid = small(obstacles=[[0, 1]], slip=0.2)
    assert sorted(grid.P[0][RIGHT]) == [(0.1, 3, -1.0, False), (0.9, 0, -1.0, False)]
    entered = {to for cell in (0, 2, 3, 4) for action in range(4) for _, to, _, _ in grid.P[cell][action]}
    assert entered == {0, 2, 3, 4, 5}


def test_first_cells():
    assert small().initial_state_distrib.tolist() == [1, 0, 0, 0, 0, 0]
    assert small(start=(1, 1)).initial_state_distrib.tolist() == [0, 0, 0, 0, 1, 0]
    anywhere = small(start=None, obstacles=[[0, 1]])
    assert anywhere.initial_state_distrib.tolist() == [0.25, 0, 0.25, 0.25, 0.25, 0]
    assert {anywhere.reset(seed=seed)[0] for seed in range(50)} == {0, 2, 3, 4}


def test_steps_follow_the_table():
    grid = small(slip=0.5)
    seen: Counter[tuple[int, float, bool]] = Counter()
    grid.reset(seed=0)
    for _ in range(2_000):
        grid.reset()
        grid.step(DOWN)
        grid.reset()
        cell, reward, terminated, truncated, _ = grid.step(RIGHT)
        assert not truncated
        seen[cell, reward, terminated] += 1
    expected = {(to, reward, ends): chance for chance, to, reward, ends in grid.P[0][RIGHT]}
    assert seen.keys() == expected.keys()
    for outcome, chance in expected.items():
        assert seen[outcome] / 2_000 == pytest.approx(chance, abs=5 * np.sqrt(0.25 / 2_000))


def test_episodes_end_in_goals():
    grid = small(start=(1, 1))
    grid.reset(seed=0)
    assert grid.step(np.int64(RIGHT)) == (5, 7.0, True, False, {})


def test_the_registered_environment():
    made = gym.make("agents.environments.grid_world:GridWorld-v0")
    check_env(made.unwrapped, skip_render_check=True)
    assert made.spec is not None
    assert made.spec.max_episode_steps == 100
    assert (made.observation_space, made.action_space) == (gym.spaces.Discrete(100), gym.spaces.Discrete(4))
    rewards = made.unwrapped.state_rewards  # type: ignore[attr-defined]
    assert (rewards[99], rewards[9], rewards[0]) == (1.0, 0.5, -0.02)


def test_agents_see_one_number_for_each_cell():
    environment = agents.EnvironmentSpec(
        "agents.environments.grid_world:GridWorld-v0", {"rows": 2, "goals": [[0, 1, 1]]}
    )
    made = environment.make()
    assert made.observation_space == gym.spaces.Discrete(20)
    assert made.spec is not None
    assert made.spec.max_episode_steps == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows must be >= 1, got 0"),
        ({"columns": -1}, "columns must be >= 1, got -1"),
        ({"slip": 1.5}, "slip must be between 0 and 1, got 1.5"),
        ({"slip": np.nan}, "slip must be between 0 and 1, got nan"),
        ({"goals": [[2, 0, 1.0]]}, r"goal must be in a grid of 2 x 3 cells, got \(2, 0\)"),
        ({"obstacles": [[0, -1]]}, r"obstacle must be in a grid of 2 x 3 cells, got \(0, -1\)"),
        ({"goals": [[0, 1, 1.0], [0, 1, 2.0]]}, "goals and obstacles must be different cells"),
        ({"obstacles": [[1, 2]]}, "goals and obstacles must be different cells"),
        ({"start": (1, 2)}, r"start must be a cell that is neither a goal nor an obstacle, got \(1, 2\)"),
        ({"start": (0, 3)}, r"start must be in a grid of 2 x 3 cells, got \(0, 3\)"),
        ({"rows": 1, "columns": 1, "goals": [[0, 0, 1.0]], "start": None}, "start must be a cell that is neither"),
    ],
)
def test_impossible_grids_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        small(**options)
