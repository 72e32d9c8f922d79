"""Tests of agents of other libraries where these are not installed; `tests/libraries` has all other tests of them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents.backend import pytorch
from agents.callbacks import MLflow, WeightsAndBiases
from agents.errors import ConfigurationError


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packages be missing, also where they are installed."""
    names = ("torch", "stable_baselines3", "sb3_contrib", "mlflow", "wandb")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in names else found(name, *more))
    for name in names:
        monkeypatch.setitem(__import__("sys").modules, name, None)
    pytorch.import_torch.cache_clear()


class Torch(agents.TorchAgent):
    def build(self) -> Any:
        return {}

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> Any:
        return None

    def act(self, observations: Any, explore: bool = False) -> Any:
        return None

    def loss(self, batch: dict[str, Any]) -> Any:
        return {}


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("sb3:PPO", "needs the package stable_baselines3, which is not installed: pip install stable-baselines3"),
        ("sb3:TQC", "pip install sb3-contrib"),
        ("sb3:PPPO", "Unknown algorithm 'PPPO' of Stable-Baselines3. Did you mean PPO"),
    ],
)
def test_missing_packages_and_unknown_names_are_named(agent: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        agents.AgentSpec.of(agent, "CartPole-v1")


@pytest.mark.usefixtures("without")
def test_an_agent_in_pytorch_says_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"PyTorch is not installed .*: pip install torch"):
        Torch(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize(("logger", "package"), [(MLflow, "mlflow"), (WeightsAndBiases, "wandb")])
def test_loggers_name_the_missing_package_before_the_training(logger: Any, package: str) -> None:
    agent = agents.make("ppo", "CartPole-v1", hidden_sizes=(4,), jit_compile=False)
    trainer = agents.Trainer(agent, callbacks=[logger()])
    with trainer, pytest.raises(ConfigurationError, match=f"is not installed .*: pip install {package}"):
        trainer.train(env_steps=64)
    assert trainer.env_steps == 0


def test_strategies_are_refused_for_agents_without_keras() -> None:
    with pytest.raises(ConfigurationError, match="The strategy one-device is one of TensorFlow, and Torch is no"):
        agents.make(Torch, "CartPole-v1", strategy="one-device")
