"""Tests that agents which only get a state, as those of checkpoints, need no demonstrations and clone no expert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("minari")

import agents
from agents import ConfigurationError
from agents.algorithms.imitation.pretrained import Cloner
from agents.population import Population

PPO = {"n_envs": 2, "n_steps": 10, "batch_size": 10, "hidden_sizes": (8,), "jit_compile": False}
SAC = {"learning_starts": 5, "batch_size": 8, "hidden_sizes": (8,), "jit_compile": False}
CLONED = {"pretrain_steps": 5}
REWARDED = {"reward_hidden_sizes": (4,)}
KINDS: list[Any] = [
    pytest.param("bc", "CartPole-v1", {"hidden_sizes": (8,), "jit_compile": False}, id="bc"),
    pytest.param("gail-ppo", "CartPole-v1", {**PPO, **REWARDED}, id="gail-ppo"),
    pytest.param("bc-ppo", "Pendulum-v1", {**PPO, **CLONED, "cloning_coef": 1.0}, id="bc-ppo"),
    pytest.param("bc-sac", "Pendulum-v1", {**SAC, **CLONED}, id="bc-sac"),
    pytest.param("bc-airl-ppo", "CartPole-v1", {**PPO, **CLONED, **REWARDED}, id="bc-airl-ppo"),
]


def trained(name: str, environment: str, params: dict[str, Any], folder: Path, **contents: Any) -> Any:
    """Return an agent after a few updates, with a checkpoint of it in a folder."""
    expert = "balance" if environment == "CartPole-v1" else "swing"
    agent = agents.make(name, environment, expert=expert, **params)
    with agents.Trainer(agent, callbacks=[agents.Checkpoint(folder, **contents)]) as trainer:
        trainer.train(env_steps=40)
    return agent


def lose_demonstrations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make all datasets unknown, and any cloning an error."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(Cloner, "clone", lambda self: pytest.fail("an expert was cloned"))


def actions(agent: Any) -> Any:
    return agent.act(np.stack([agent.observation_space.sample() * 0 + 0.1] * 3), explore=False)


@pytest.mark.slow
@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize(("name", "environment", "params"), KINDS)
def test_agent_of_a_checkpoint_acts(
    name: str, environment: str, params: dict[str, Any], weights_only: bool, *, monkeypatch: Any, tmp_path: Path
):
    agent = trained(name, environment, params, tmp_path / "run", weights_only=weights_only)
    lose_demonstrations(monkeypatch, tmp_path)
    loaded = agents.load_agent(tmp_path / "run")
    np.testing.assert_array_equal(actions(loaded), actions(agent))
    with pytest.raises(ConfigurationError, match="dataset"):
        agents.Trainer(loaded).train(env_steps=40)


@pytest.mark.slow
def test_agent_that_only_starts_from_a_clone_is_trained_further_without_demonstrations(
    monkeypatch: Any, tmp_path: Path
):
    trained("bc-ppo", "Pendulum-v1", {**PPO, **CLONED, "normalize_observations": True}, tmp_path / "run")
    lose_demonstrations(monkeypatch, tmp_path)
    loaded = agents.load_agent(tmp_path / "run")
    before = loaded.gradient_steps
    agents.Trainer(loaded).train(env_steps=40)
    assert loaded.gradient_steps > before


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), KINDS)
def test_loaded_agent_is_trained_further_like_the_one_that_was_saved(
    name: str, environment: str, params: dict[str, Any], tmp_path: Path
):
    agent = trained(name, environment, params, tmp_path / "run")
    loaded = agents.load_agent(tmp_path / "run")
    for each in (agent, loaded):
        agents.Trainer(each, seed=1).train(env_steps=40)
    np.testing.assert_array_equal(actions(loaded), actions(agent))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), KINDS)
def test_member_that_is_extracted_clones_nothing(
    name: str, environment: str, params: dict[str, Any], monkeypatch: Any, tmp_path: Path
):
    expert = "balance" if environment == "CartPole-v1" else "swing"
    spec = agents.AgentSpec.of(name, environment, {**params, "expert": expert})
    population = Population(spec, [{"seed": 0}, {"seed": 1}])
    agents.Trainer(population).train(env_steps=40)
    lose_demonstrations(monkeypatch, tmp_path)
    assert len(actions(population.extract(1))) == 3


def test_new_agent_without_its_demonstrations_is_refused(monkeypatch: Any, tmp_path: Path):
    lose_demonstrations(monkeypatch, tmp_path)
    for name in ("bc", "gail-ppo", "bc-ppo"):
        with pytest.raises(ConfigurationError, match="balance"):
            agents.make(name, "CartPole-v1", expert="balance")
