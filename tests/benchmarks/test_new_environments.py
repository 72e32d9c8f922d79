"""The environments of benchmarks fulfil Gymnasium's contract, and can be controlled."""

from __future__ import annotations

import gymnasium as gym
import new_environments  # noqa: F401 - registers them
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks.learning.judged_episodes import judged_returns

IDS = ("Tanks-v0", "Catch-v0", "Inventory-v0")


@pytest.mark.parametrize("name", IDS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_contract(name: str) -> None:
    check_env(gym.make(name).unwrapped, skip_render_check=True)


def controlled(observations: np.ndarray) -> np.ndarray:
    first, second, target, _ = (observations.T + 1.0) / 2.0
    inflow = 0.7 * np.sqrt(target) + 2.0 * (target - second) + 0.5 * ((0.7 / 0.8) ** 2 * target - first)
    return np.clip(2.0 * inflow - 1.0, -1.0, 1.0)[:, None].astype(np.float32)


def test_a_controller_is_beyond_the_threshold_and_constant_inflow_is_not() -> None:
    assert judged_returns("Tanks-v0", controlled, 20).mean() > -7.0
    constant = judged_returns("Tanks-v0", lambda seen: np.zeros((len(seen), 1), np.float32), 20)
    assert constant.mean() < -12.0


def test_judged_episodes_are_the_same_for_all() -> None:
    first, second = (judged_returns("new_environments:Tanks-v0", controlled, 5) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(first, judged_returns("Tanks-v0", controlled, 7)[:5])
