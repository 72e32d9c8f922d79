"""Tests of environments from files, wrappers and step limits in every command that takes an environment."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

SMALL = tuple(
    word
    for setting in ("jit_compile=false", "n_steps=16", "n_envs=2", "batch_size=16", "n_epochs=1", "hidden_sizes=[8]")
    for word in ("--set", setting)
)
ENV_OPTIONS = (
    "--env", "my_env.py:Endless", "--wrapper", "my_env.py:Doubled:by=3", "--wrapper",
    "FrameStackObservation:stack_size=2", "--max-episode-steps", "10",
)  # fmt: skip

SOURCE = '''
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Endless(gym.Env):
    """Episodes never end."""

    def __init__(self, render_mode=None):
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0 + 0.001 * float(action), False, False, {}


class Doubled(gym.RewardWrapper):
    def __init__(self, env, by=2.0):
        super().__init__(env)
        self.by = by

    def reward(self, reward):
        return self.by * reward
'''


@pytest.fixture
def finder_with_env(finder: Any) -> Any:
    (finder.folder / "my_env.py").write_text(SOURCE)
    return finder


def lr(finder: Any, *words: str) -> Any:
    budget = ("--env-steps", "128", "--seeds", "1", "--rates", "0.3,1e-4", "--confirm", "0", "--executor", "process")
    return finder("lr", "ppo", *budget, *SMALL, *words)


@pytest.mark.slow
def test_search_and_training_of_its_pick_use_the_environment(finder_with_env: Any) -> None:
    ran = lr(finder_with_env, *ENV_OPTIONS)
    assert ran.code == 0, ran.err
    found = finder_with_env("best", "lr-ppo-Endless", "--json").json
    assert 30.0 < found["value"] < 30.1  # ten steps, each worth three
    assert found["env"] == "my_env.py:Endless"
    assert found["wrappers"] == ["my_env.py:Doubled:by=3", "FrameStackObservation:stack_size=2"]
    assert found["max_episode_steps"] == 10
    assert (
        "agents.EnvironmentSpec('my_env.py:Endless', wrappers=['my_env.py:Doubled"
        in finder_with_env("best", "lr-ppo-Endless").out
    )
    ran = finder_with_env("train", "--from", "lr-ppo-Endless", "--env-steps", "256", "--folder", "run", "--json")
    assert ran.code == 0, ran.err
    assert 30.0 < ran.json["mean_return"] < 30.1
    settings = json.loads((finder_with_env.folder / "run" / "run.json").read_text())["settings"]
    file = finder_with_env.folder / "my_env.py"
    assert settings["env"] == f"{file}:Endless"
    assert settings["wrappers"] == [f"{file}:Doubled:by=3", "FrameStackObservation:stack_size=2"]
    ran = finder_with_env("train", "--resume", "run", "--env-steps", "320", "--json")
    assert ran.code == 0, ran.err
    assert 30.0 < ran.json["mean_return"] < 30.1


@pytest.mark.slow
def test_changed_wrappers_or_step_limit_are_refused(finder_with_env: Any) -> None:
    first = ("--env", "my_env.py:Endless", "--max-episode-steps", "10", "--study-name", "s")
    assert lr(finder_with_env, *first).code == 0
    assert lr(finder_with_env, *first).code == 0  # resumes
    ran = lr(finder_with_env, "--env", "my_env.py:Endless", "--max-episode-steps", "20", "--study-name", "s")
    assert (ran.code, ran.out) == (2, "")
    assert "made with at most 10 steps an episode; now at most 20 steps an episode" in ran.err
    ran = lr(finder_with_env, *first, "--wrapper", "NormalizeReward")
    assert "made with no wrappers; now the wrappers NormalizeReward" in ran.err


@pytest.mark.slow
def test_train_uses_the_environment(finder_with_env: Any) -> None:
    ran = finder_with_env("train", "ppo", *ENV_OPTIONS, *SMALL, "--env-steps", "128", "--json", "--quiet")
    assert ran.code == 0, ran.err
    assert 30.0 < ran.json["mean_return"] < 30.1
    assert ran.json["folder"] == "runs/ppo-Endless-seed0"


@pytest.mark.slow
def test_study_file_sets_the_environment(finder_with_env: Any) -> None:
    (finder_with_env.folder / "study.toml").write_text(
        'name = "s"\nagents = ["ppo"]\nenv = "my_env.py:Endless"\nwrappers = ["my_env.py:Doubled"]\n'
        "max_episode_steps = 4\nenv_steps = 64\nn_trials = 1\nseeds = 1\nconfirm = 0\n"
        "[params]\ngamma = [0.9]\n[fixed]\nn_steps = 16\nn_envs = 2\njit_compile = false\n"
    )
    ran = finder_with_env("run", "study.toml")
    assert ran.code == 0, ran.err
    assert finder_with_env("best", "s", "--json").json["value"] == pytest.approx(8.0, abs=0.02)


@pytest.mark.slow
def test_range_test_prints_the_environment_options(finder_with_env: Any) -> None:
    words = (*ENV_OPTIONS, *SMALL, "--storage", "other.db")
    ran = finder_with_env("lr", "ppo", *words, "--range-test", "--env-steps", "600", "--seeds", "1")
    settings = SMALL[SMALL.index("--set") :]
    assert f"finder lr ppo {shlex.join((*ENV_OPTIONS, *settings))}" in ran.err
    assert "--storage other.db" in ran.err
    assert ran.code in (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--env", "my_env.py"), "write my_env.py:Class. Environments in it: Endless."),
        (("--env", "my_env.py:Endles"), "my_env.py has nothing called 'Endles'"),
        (("--env", "CartPole-v1", "--wrapper", "FrameStack"), "Did you mean FrameStackObservation"),
        (("--env", "CartPole-v1", "--wrapper", "FrameStackObservation:size=4"), "unexpected keyword argument 'size'"),
        (("--env", "CartPole-v1", "--max-episode-steps", "0"), "'--max-episode-steps'"),
    ],
)
@pytest.mark.parametrize("command", ["lr", "train"])
def test_mistake_in_an_environment_is_reported(
    finder_with_env: Any, command: str, words: tuple[str, ...], message: str
) -> None:
    ran = finder_with_env(command, "ppo", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
