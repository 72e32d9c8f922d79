"""Tests of infos and method calls of environments in all kinds of vectorization."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from rays import ELSEWHERE

from agents import ConfigurationError
from agents.environments import Environments, EnvironmentSpec

pytestmark = pytest.mark.usefixtures("one_ray_for_all")

WITH_ENVPOOL = pytest.mark.skipif(find_spec("envpool") is None, reason="the extra envpool is not installed")


class InfoEnvironment(gym.Env[np.ndarray, int]):
    """Environment with episodes of three steps and the step as info; copies of odd seeds raise in their fifth step."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, locked: bool = False) -> None:
        self.locked, self.made = locked, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.odd = bool(seed % 2) if seed is not None else self.odd
        self.t = 0
        return np.zeros(1, np.float32), {"t": -1, "reset": True}

    def step(self, action: int) -> Any:
        self.t += 1
        self.made += 1
        if self.odd and self.made == 5:
            raise RuntimeError("the arm fell off")
        info = {"t": self.t, "array": np.full(2, self.made), "nested": {"a": [self.made]}}
        if self.locked and self.odd:
            info["lock"] = threading.Lock()
        return np.zeros(1, np.float32), 0.0, self.t == 3, False, info


@pytest.mark.parametrize("kind", ["sync", *ELSEWHERE])
def test_infos_are_returned_by_all_kinds(kind: str):
    made = Environments(EnvironmentSpec(InfoEnvironment, {}, kind), 3, infos=True)
    made.reset([0, 1, 2])
    for t in range(1, 8):
        if t == 6:
            made.select([2, 0])
        result = made.step(np.zeros(made.n_envs, np.int64))
        assert result.infos is not None
        for i, info in enumerate(result.infos):
            if t == 5 and i == 1:
                assert info is None
                assert i in result.errors
                continue
            assert info is not None
            assert info["t"] == (t - 1) % 3 + 1  # of the last step, also at the end of an episode
            assert info["nested"] == {"a": [t]}
            np.testing.assert_array_equal(info["array"], [t, t])
            assert "reset" not in info
    made.close()


@pytest.mark.parametrize("kind", ELSEWHERE[:2])
def test_infos_that_cannot_be_pickled_are_errors_of_their_copy(kind: str):
    made = Environments(EnvironmentSpec(InfoEnvironment, {"locked": True}, kind), 2, infos=True)
    made.reset([0, 1])
    result = made.step(np.zeros(2, np.int64))
    assert set(result.errors) == {1}
    assert "info" in str(result.errors[1])
    assert result.infos is not None
    assert result.infos[0] is not None
    assert result.infos[1] is None
    made.close()
    made = Environments(EnvironmentSpec(InfoEnvironment, {"locked": True}, kind), 2)
    made.reset([0, 1])
    assert not made.step(np.zeros(2, np.int64)).errors  # infos are not requested
    made.close()


def test_native_cartpole_returns_empty_infos():
    made = Environments(EnvironmentSpec("CartPole-v1", {}, "native"), 3, infos=True)
    made.reset(range(3))
    assert made.step(np.zeros(3, np.int64)).infos == [{}, {}, {}]
    made.select([0])
    assert made.step(np.zeros(1, np.int64)).infos == [{}]


@WITH_ENVPOOL
def test_infos_of_envpool_are_refused():
    with pytest.raises(ConfigurationError, match=r"EnvPool gives no infos.*vectorization='sync'"):
        Environments(EnvironmentSpec("Acrobot-v1", {}, "envpool"), 8, infos=True)


# --- methods of copies


class MethodEnvironment(gym.Env[np.ndarray, int]):
    """Environment with methods to call; copies of odd seeds raise in their second step."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    number = 7

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seeded, self.t = seed, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.t += 1
        if (self.seeded or 0) % 2 and self.t == 2:
            raise RuntimeError("the arm fell off")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def seed_and_arguments(self, *arguments: Any) -> Any:
        return self.seeded, arguments

    def exits_for_seed(self, seed: int) -> int:
        if self.seeded == seed:
            raise SystemExit("bye")
        return seed

    def lock(self) -> Any:
        return threading.Lock()


@pytest.mark.parametrize("kind", ["sync", *ELSEWHERE])
def test_methods_are_called_in_all_kinds(kind: str):
    class OfThisTest:
        value = 3

    def call_method(method: str, *arguments: Any, copies: Any = None) -> Any:
        return made.call(method, arguments, range(made.n_envs) if copies is None else copies)

    made = Environments(EnvironmentSpec(lambda: TimeLimit(MethodEnvironment(), 50), {}, kind), 4)
    made.reset([10, 21, 12, 14])
    answers = call_method("seed_and_arguments", "a", OfThisTest)
    assert [answers[i].result[0] for i in range(4)] == [10, 21, 12, 14]
    assert all(answer.result[1][0] == "a" and answer.result[1][1].value == 3 for answer in answers.values())
    assert {i: a.result[0] for i, a in call_method("seed_and_arguments", copies=[3, 1]).items()} == {3: 14, 1: 21}
    for method in ("nothing", "number"):
        assert all(f"no method '{method}'" in str(answer.error) for answer in call_method(method).values())
    exits_for_seed = call_method("exits_for_seed", 12)
    assert [exits_for_seed[i].result for i in (0, 1, 3)] == [12] * 3
    assert "sys.exit" in str(exits_for_seed[2].error)
    if kind != "sync":
        assert all("cannot be sent" in str(answer.error) for answer in call_method("lock").values())
    made.step(np.zeros(4, np.int64))
    assert set(made.step(np.zeros(4, np.int64)).errors) == {1}
    assert sorted(call_method("seed_and_arguments")) == [0, 2, 3]  # without the copy that has raised
    made.select([3, 1, 0])
    assert {i: answer.result[0] for i, answer in call_method("seed_and_arguments").items()} == {0: 14, 2: 10}
    assert not made.step(np.zeros(3, np.int64)).errors
    made.close()


class Scores(gym.Env):
    """Environment that returns the same list in every info; `reset` clears it."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.scores = []

    def reset(self, *, seed=None, options=None):
        self.scores.clear()
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.scores.append(1.0)
        return np.zeros(1, np.float32), 0.0, len(self.scores) == 2, False, {"scores": self.scores}


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_infos_are_copied_before_environment_changes_them(vectorization):
    environments = Environments(EnvironmentSpec(Scores, vectorization=vectorization), 1, infos=True)
    environments.reset([0])
    seen = [environments.step(np.zeros(1, np.int64)).infos[0]["scores"] for _ in range(3)]
    environments.close()
    assert seen == [[1.0], [1.0, 1.0], [1.0]]
