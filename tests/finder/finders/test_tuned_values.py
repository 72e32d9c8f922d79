"""Tests of the tuned values of rl-baselines3-zoo."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agents import AgentSpec, ConfigurationError
from finder.finders import tuned_values as module
from finder.finders.declared_spaces import default_space, parse_spaces
from finder.finders.first_trials import current_params, first_trials
from finder.finders.tuned_values import tuned_trial, tuned_values, widened, with_tuned_values
from studies.spaces.spaces import Choice

TABLES = tomllib.loads((Path(module.__file__).parent / "tuned_values.toml").read_text())
CASES = [(agent, env) for agent, table in TABLES.items() for env in table if env != "defaults"]


def test_file_has_the_classic_and_box2d_environments_of_seven_agents() -> None:
    assert set(TABLES) == {"a2c", "ddpg", "dqn", "ppo", "sac", "td3", "trpo"}
    assert len(CASES) == 46
    assert {env for _, env in CASES} <= set(gym.registry)


@pytest.mark.parametrize(("agent", "env"), CASES)
def test_every_value_is_accepted_by_the_agent_and_is_in_its_default_space_or_named(agent: str, env: str) -> None:
    values = tuned_values(agent, env)
    steps = values.pop("env_steps")
    assert 20_000 <= steps <= 200_000_000
    spec = AgentSpec.of(agent, env)
    config = spec.config.replace(values)
    for name, value in values.items():
        have = config.value_of(name)
        assert (list(have) if isinstance(have, tuple) else have) == value
    spaces = parse_spaces(spec, default_space(spec))
    found = tuned_trial(spec, spaces, current_params(spec, spaces))
    assert found.row["learning_rate"] == values["learning_rate"]
    for name, value in values.items():
        searched = {name, f"one_minus_{name}"} & set(found.row)
        same = spec.config.value_of(name) in (value, tuple(value) if isinstance(value, list) else value)
        assert searched or same or f"{name}=" in found.note or name == "hidden_sizes"


def test_values_known_by_hand() -> None:
    # hyperparams/ppo.yml: n_steps 32, batch_size 256, gae_lambda 0.8, gamma 0.98, n_epochs 20, rates falling from 0.001
    # and 0.2; eight environments.
    ppo = tuned_values("PPO", "CartPole-v1")
    assert {name: ppo[name] for name in ("n_steps", "batch_size", "gae_lambda", "gamma", "n_epochs", "n_envs")} == {
        "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "n_envs": 8,
    }  # fmt: skip
    assert (ppo["learning_rate"], ppo["clip_range"], ppo["env_steps"]) == (1e-3, 0.2, 100_000)
    # hyperparams/dqn.yml, MountainCar-v0: a target every 600 steps, and 8 gradient steps every 16 steps.
    dqn = tuned_values("dqn", "MountainCar-v0")
    assert (dqn["target_update_interval"], dqn["exploration_steps"]) == (300, 24_000)
    # hyperparams/td3.yml, Pendulum-v1: noise of 0.1 on actions within 1; here they are within 2.
    assert tuned_values("td3", "Pendulum-v1")["noise_kwargs"] == {"sigma": 0.2}


def test_row_has_searched_values_and_the_note_names_the_others() -> None:
    spec = AgentSpec.of("ppo", "CartPole-v1", {"n_envs": 4})
    searched = {"gamma": "0.9:0.999", "n_steps": [32, 64], "clip_range": "0.25:0.4", "optimizer": None}
    spaces = parse_spaces(spec, searched)
    sets, [note] = with_tuned_values("zoo", spec, spaces, current_params(spec, spaces))
    rows = first_trials(spec, spaces, {}, sets, 3)
    assert rows == [{"gamma": 0.98, "n_steps": 32, "clip_range": 0.25, "optimizer": "adam(epsilon=1e-05)"}]
    assert "for ppo in CartPole-v1, from runs of 100,000 steps: gamma=0.98, clip_range=0.25, n_steps=32." in note
    assert "Outside of their ranges, so at the nearest ends: clip_range=0.2." in note
    assert "different in this study: " in note
    assert "n_envs=8 (here 4)" in note
    assert "gae_lambda=0.8 (here 0.95)" in note
    assert "vf_coef" not in note, "it is the same"


def test_value_that_is_no_choice_is_left_to_the_sampler() -> None:
    spec = AgentSpec.of("ppo", "CartPole-v1")
    found = tuned_trial(spec, parse_spaces(spec, {"gamma": None, "n_steps": [64, 128]}), {})
    assert found.row == {"gamma": 0.98}
    assert "Outside of the search space, so left to the sampler: n_steps=32." in found.note


@pytest.mark.parametrize(("agent", "env"), CASES)
def test_widened_space_has_the_tuned_values_and_those_of_the_agent(agent: str, env: str) -> None:
    spec = AgentSpec.of(agent, env)
    spaces = parse_spaces(spec, default_space(spec))
    wide = widened(spaces, spec, ())
    assert list(wide)[: len(spaces)] == list(spaces)
    row = tuned_trial(spec, wide, current_params(spec, wide)).row
    for name, value in tuned_values(agent, env).items():
        if name in wide and isinstance(wide[name], Choice):
            assert row[name] == value
    for name in set(wide) - set(spaces):
        assert wide[name].values[1] == row[name]
    assert set(wide) - set(spaces) <= {
        "n_envs", "normalize_observations", "normalize_rewards", "hidden_sizes", "noise", "ent_coef", "cg_max_steps"
    }  # fmt: skip
    choices = {name: space.values for name, space in wide.items() if isinstance(space, Choice)}
    for values in zip(*(values * 8 for values in choices.values()), strict=False):
        spec.config.replace(dict(zip(choices, values, strict=True)))


def test_widened_space_leaves_out_what_is_fixed() -> None:
    spec = AgentSpec.of("ppo", "MountainCarContinuous-v0")
    spaces = parse_spaces(spec, default_space(spec))
    assert isinstance(spaces["n_steps"], Choice)
    wide = widened(spaces, spec, ["n_envs"])
    assert "n_envs" not in wide
    assert wide["normalize_observations"] == Choice((False, True))
    assert wide["n_steps"] == Choice((*spaces["n_steps"].values, 8))


def test_continuous_lunar_lander_is_an_argument_of_its_environment() -> None:
    from agents.environments import EnvironmentSpec

    spec = AgentSpec.of("sac", EnvironmentSpec.of("LunarLander-v3", {"continuous": True}))
    spaces = parse_spaces(spec, {"learning_rate": None})
    assert tuned_trial(spec, spaces, {}).row == {"learning_rate": 7.3e-4}


@pytest.mark.parametrize(
    ("agent", "env", "space", "words"),
    [
        ("acer", "CartPole-v1", "gamma", ["'acer'", "a2c, ddpg, dqn, ppo"]),
        ("ppo", "FrozenLake-v1", "gamma", ["'FrozenLake-v1'", "For ppo: CartPole-v1, "]),
        ("dqn", "MountainCarContinuous-v0", "gamma", ["For MountainCarContinuous-v0: a2c, ddpg, ppo, sac, td3, trpo"]),
        ("ppo", "CartPole-v1", "share_layers", ["None of the tuned values", "learning_rate"]),
    ],
)
def test_mistake_names_what_there_is(agent: str, env: str, space: Any, words: list[str]) -> None:
    spec = AgentSpec.of(agent, env)
    spaces = parse_spaces(spec, {"share_layers": [True, False]} if space == "share_layers" else {space: None})
    with pytest.raises(ConfigurationError) as error:
        tuned_trial(spec, spaces, {})
    assert all(word in str(error.value) for word in words)
