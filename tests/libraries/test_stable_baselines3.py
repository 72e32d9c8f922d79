"""Tests of agents of Stable-Baselines3: their runs are the library's own, and finders take them by name."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import agents
import studies
from agents import AgentSpec
from agents.contract.spec import config_class
from agents.errors import ConfigurationError, NonFiniteError
from agents.libraries.stable_baselines3 import ALGORITHMS, make_model, training_function_of
from agents.seeding import integers
from finder import LRFinder, tune
from finder.cli import main
from studies.spec.spec import default_name

SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2}


def run_of(agent: str, env_steps: int = 400, seed: int = 3, environment: Any = "CartPole-v1", **params: Any) -> Any:
    with agents.TrainingRun(environment, seed=seed, env_steps=env_steps) as run:
        AgentSpec.of(agent, environment, params).call(run)  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_hyperparameters_are_the_arguments_of_the_class_with_its_defaults(name: str):
    package, _ = ALGORITHMS[name]
    own = inspect.signature(getattr(__import__(package), name).__init__).parameters
    config = config_class(f"sb3:{name}")()
    assert config.learning_rate == own["learning_rate"].default
    for field, value in config.to_dict().items():
        if field in own and field not in ("policy", "policy_kwargs"):
            assert value == own[field].default, field
    assert "verbose" not in config.to_dict()


def test_names_are_found_in_any_case_and_unknown_ones_get_the_nearest():
    assert training_function_of("sb3:ppo") is training_function_of("sb3:PPO")
    with pytest.raises(ConfigurationError, match=r"'PP0'.*PPO"):
        AgentSpec.of("sb3:PP0", "CartPole-v1")


def test_a_run_is_the_library_s_own():
    run = run_of("sb3:PPO", n_envs=2, **SMALL)
    copies = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))] * 2)
    [seed] = integers(3, "stable-baselines3", 1)
    model = stable_baselines3.PPO("MlpPolicy", copies, seed=seed, **SMALL)
    model.learn(400)
    expected = [returns for monitor in copies.envs for returns in monitor.get_episode_rewards()]
    assert len(run.history.returns) > 5
    missing = list(expected)
    for value in run.history.returns:  # those of the last rollout beyond the budget are not reported
        missing.remove(value)
    assert len(missing) <= 6
    assert run.progress.env_steps >= 400
    assert run.progress.newest_loss is not None


def test_a_model_with_the_pick_makes_the_same_episodes():
    run = run_of("sb3:PPO", n_envs=1, learning_rate=0.01, **SMALL)
    model = make_model("sb3:PPO", "CartPole-v1", seed=3, learning_rate=0.01, **SMALL)
    model.learn(400)
    returns = model.get_env().envs[0].get_episode_rewards()
    assert run.history.returns == returns[: len(run.history.returns)]


def test_runs_of_different_seeds_share_no_environments():
    """The library seeds copy i with its seed + i."""
    firsts: list[bytes] = []
    for seed in (0, 1, 2, 2**40):
        model = make_model("sb3:PPO", "CartPole-v1", seed=seed, n_envs=4, **SMALL)
        firsts += [observation.tobytes() for observation in model.get_env().reset()]
    assert len(set(firsts)) == 16


class Noting(gym.Env[Any, Any]):
    """Environment of one-step episodes that notes the seeds it is given."""

    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)
    seeds: ClassVar[set[int | None]] = set()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.add(seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, True, False, {}


def test_runs_of_a_study_and_their_models_have_equal_seeds():
    Noting.seeds = set()
    run_of("sb3:PPO", env_steps=32, seed=3, environment=Noting, n_envs=2, **SMALL)
    by_run, Noting.seeds = Noting.seeds, set()
    make_model("sb3:PPO", Noting, seed=3, n_envs=2, **SMALL).get_env().reset()
    [first] = integers(3, "stable-baselines3", 1)
    assert by_run - {None} == Noting.seeds - {None} == {first, first + 1}


@pytest.mark.parametrize(
    ("agent", "environment", "params"),
    [
        ("sb3:A2C", "CartPole-v1", {"optimizer": "adam"}),
        ("sb3:DQN", "CartPole-v1", {"learning_starts": 50, "train_freq": 4}),
        ("sb3:SAC", "Pendulum-v1", {"learning_starts": 50, "batch_size": 8, "ent_coef": 0.1}),
        ("sb3:TD3", "Pendulum-v1", {"learning_starts": 50, "batch_size": 8}),
        ("sb3:DDPG", "Pendulum-v1", {"learning_starts": 50, "batch_size": 8}),
        ("sb3:TQC", "Pendulum-v1", {"learning_starts": 50, "batch_size": 8}),
        ("sb3:TRPO", "CartPole-v1", {"n_steps": 64}),
    ],
)
def test_algorithms_train(agent: str, environment: str, params: dict[str, Any]):
    run = run_of(agent, environment=environment, env_steps=420, **params)
    assert run.history.returns
    assert np.isfinite(run.history.returns).all()


def test_optimizer_and_policy_arguments_reach_the_policy():
    model = make_model(
        "sb3:A2C",
        "CartPole-v1",
        optimizer="sgd(momentum=0.5)",
        policy_kwargs={"net_arch": [7], "activation_fn": "ReLU"},
        normalize=True,
        gamma=0.5,
    )
    assert isinstance(model.policy.optimizer, torch.optim.SGD)
    assert model.policy.optimizer.defaults["momentum"] == 0.5
    assert model.policy.mlp_extractor.policy_net[0].out_features == 7
    assert isinstance(model.policy.mlp_extractor.policy_net[1], torch.nn.ReLU)
    assert isinstance(model.get_env(), VecNormalize)
    assert model.get_env().gamma == 0.5


class Parts(gym.Env[Any, Any]):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,), np.float32)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, True, False, {}


def test_the_policy_fits_the_observations():
    assert type(make_model("sb3:PPO", Parts, **SMALL).policy).__name__ == "MultiInputActorCriticPolicy"
    assert type(make_model("sb3:PPO", "CartPole-v1").policy).__name__ == "ActorCriticPolicy"


def test_weights_that_are_not_finite_are_a_divergence():
    with pytest.raises(NonFiniteError):
        run_of("sb3:PPO", env_steps=2_000, learning_rate=1e20, **SMALL)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"policy": "NoPolicy"}, "cannot be built"),
        ({"policy_kwargs": {"activation_fn": "Nothing"}}, "torch.nn"),
        ({"optimizer": "lion"}, "no counterpart in PyTorch"),
        ({"n_envs": 0}, "n_envs"),
        ({"optimizer": "adam(learning_rate=0.5)"}, "set learning_rate"),
        ({"policy_kwargs": {"activation_fn": "functional"}}, "torch.nn"),
        ({"verbose": 1}, "verbose"),
        ({"gamma": 2.0}, "gamma"),
    ],
)
def test_bad_hyperparameters_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        make_model("sb3:PPO", "CartPole-v1", **params)


def test_exploration_by_a_share_of_the_steps_needs_steps():
    with (
        pytest.raises(ConfigurationError, match="budget in environment steps"),
        agents.TrainingRun("CartPole-v1", episodes=3) as run,
    ):
        AgentSpec.of("sb3:DQN", "CartPole-v1").call(run)  # type: ignore[attr-defined]


def test_actions_that_an_algorithm_does_not_take_are_refused():
    with pytest.raises(ConfigurationError, match="sb3:SAC cannot be built"):
        make_model("sb3:SAC", "CartPole-v1")


def test_values_that_only_the_library_knows_are_accepted():
    model = make_model("sb3:SAC", "Pendulum-v1", gradient_steps=-1, train_freq=(1, "episode"))
    assert model.gradient_steps == -1
    assert model.train_freq.unit.value == "episode"


def test_names_are_recorded_as_the_library_spells_them():
    assert AgentSpec.of("SB3:ppo", "CartPole-v1").label == "sb3:PPO"
    assert default_name("lr", ["sb3:PPO"], "CartPole-v1") == "lr-sb3-PPO-CartPole-v1"
    with pytest.raises(ConfigurationError, match="cannot learn from demonstrations"):
        AgentSpec.of("bc-sb3:PPO", "CartPole-v1")


def test_a_search_begins_with_a_check_of_the_model():
    with pytest.raises(ConfigurationError, match="sb3:SAC cannot be built"):
        LRFinder("sb3:SAC", "CartPole-v1").grid(1e-3, 1e-2, 2, env_steps=300, confirm=0, executor="inline")


def test_finders_take_them(tmp_path: Path):
    storage = f"sqlite:///{tmp_path}/f.db"
    rates = LRFinder("sb3:PPO", "CartPole-v1").grid(
        1e-4, 1e-2, 2, env_steps=300, seeds=1, confirm=0, executor="inline", fixed=SMALL, storage=storage
    )
    assert len(rates.table()) == 2
    found = tune(
        "sb3:PPO",
        "CartPole-v1",
        {"optimizer": "adam,sgd", "gamma": "0.9:0.99"},
        env_steps=600, n_trials=2, seeds=1, confirm=0, executor="inline", storage=storage,
        fixed={**SMALL, "learning_rate": 0.05},
    )  # fmt: skip
    assert len(found.table()) == 2
    pick = studies.best(found.study)
    assert pick.agent == "sb3:PPO"
    make_model(pick.agent, "CartPole-v1", **pick.config)


@pytest.mark.real
def test_the_command_line_searches_and_prints_the_lines_of_the_long_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    searched = ["tune", "sb3:PPO", "--env", "CartPole-v1", "--n-trials", "2", "--env-steps", "300", "--seeds", "1"]
    searched += ["--set", "n_steps=32", "--set", "batch_size=32", "--param", "learning_rate=1e-3,0.05"]
    assert main([*searched, "--confirm", "0", "--study-name", "s"]) == 0
    capsys.readouterr()
    assert main(["best", "s"]) == 0
    printed = capsys.readouterr().out
    exec(printed[printed.index("import agents") :].replace("1_000_000", "64"), {})
    assert (tmp_path / "model.zip").exists()
    assert main(["best", "s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "sb3:PPO"
    assert main(["params", "sb3:SAC"]) == 0
    assert "target_entropy" in capsys.readouterr().out
