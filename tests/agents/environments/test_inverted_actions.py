"""Actions of an environment become the agent's again: `Interface.invert_actions` inverts `convert_actions`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from agents.environments.interface import Interface
from agents.errors import ConfigurationError

VECTOR = spaces.Box(-1, 1, (2,))
LOW, HIGH = np.array([-2.0, 0.0, 5.0], np.float32), np.array([2.0, 10.0, 5.0], np.float32)
SPACES: dict[str, gym.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "discrete from 5": spaces.Discrete(4, start=5),
    "discrete from -1": spaces.Discrete(3, start=-1),
    "multi-discrete": spaces.MultiDiscrete([2, 3], start=[1, 5]),
    "multi-discrete 2-D": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi-binary": spaces.MultiBinary(3),
    "multi-binary 2-D": spaces.MultiBinary([2, 3]),
    "box": spaces.Box(LOW[:2], HIGH[:2]),
    "box of float64": spaces.Box(-3.0, 7.0, (2,), np.float64),
    "box 2-D": spaces.Box(-3, 7, (2, 2)),
    "free box": spaces.Box(-np.inf, np.inf, (2,)),
    "half-bounded box": spaces.Box(0, np.inf, (2,)),
}


def interface(space: gym.Space[Any]) -> Interface:
    return Interface(VECTOR, space, "E")


@pytest.mark.parametrize("name", SPACES)
def test_environment_actions_are_recovered(name: str) -> None:
    space = SPACES[name]
    both = interface(space)
    space.seed(1)
    recorded = np.stack([space.sample() for _ in range(50)])  # [N, ...]
    own = both.invert_actions(recorded)
    assert own.dtype == (np.float32 if isinstance(space, spaces.Box) else np.int64)
    assert own.shape == (50, *both.action_space.shape)
    assert all(both.action_space.contains(row) for row in own)
    np.testing.assert_allclose(both.convert_actions(own), recorded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SPACES)
def test_agent_actions_are_recovered(name: str) -> None:
    both = interface(SPACES[name])
    both.action_space.seed(2)
    own = np.stack([both.action_space.sample() for _ in range(50)])
    own = np.abs(own) if name == "half-bounded box" else own  # an agent's negative action is clipped there
    np.testing.assert_allclose(both.invert_actions(both.convert_actions(own)), own, rtol=1e-5, atol=1e-5)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-1, 1))
def test_scaled_action_is_recovered_for_any_bounds(low: float, width: float, action: float) -> None:
    both = interface(spaces.Box(low, low + width, (1,), np.float64))
    own = np.array([[action]], np.float32)
    np.testing.assert_allclose(both.invert_actions(both.convert_actions(own)), own, atol=1e-4)


def test_scaled_actions_worked_out_by_hand() -> None:
    both = interface(spaces.Box(LOW, HIGH))
    own = both.invert_actions(np.array([[-2, 5, 5], [1, 10, 5]], np.float64))
    np.testing.assert_allclose(own, [[-1, 0, -1], [0.5, 1, -1]])  # the third dimension has one value


def test_rounding_errors_are_clipped() -> None:
    both = interface(spaces.Box(-2, 2, (1,)))
    own = both.invert_actions(np.array([[-2.0001], [2.0001]]))
    np.testing.assert_array_equal(own, [[-1], [1]])


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("discrete", 3),
        ("discrete", -1),
        ("discrete", 1.5),
        ("discrete", np.nan),
        ("discrete from 5", 0),
        ("multi-discrete", [1, 8]),
        ("multi-discrete", [0, 5]),
        ("multi-binary", [0, 2, 0]),
        ("box", [2.1, 0]),
        ("box", [np.nan, 0]),
        ("box", [0, np.inf]),
        ("free box", [np.nan, 0]),
        ("free box", [0, -np.inf]),
        ("free box", [1e300, 0]),
        ("half-bounded box", [-0.1, 0]),
    ],
)
def test_action_outside_of_the_space_is_refused(name: str, action: Any) -> None:
    space = SPACES[name]
    good = np.zeros(space.shape or ()) + (space.sample() if name != "free box" else 0.0)
    with pytest.raises(ConfigurationError, match=r"'E' takes actions in \w+\(.*\); action 1 is .*\."):
        interface(space).invert_actions(np.stack([good, np.asarray(action, np.float64)]))


@pytest.mark.parametrize(
    ("name", "actions"),
    [("discrete", [[0], [1]]), ("box", [[0.0], [0.0]]), ("box", 0.0), ("discrete", ["a"]), ("discrete", [None])],
)
def test_actions_of_another_shape_or_type_are_refused(name: str, actions: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'E' takes actions of shape \('N'.*\); got "):
        interface(SPACES[name]).invert_actions(actions)
