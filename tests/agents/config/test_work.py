"""Tests of the gradient steps of a run, estimated from hyperparameters."""

from __future__ import annotations

from typing import Any

import pytest

import agents
from agents.config.work import gradient_steps_in
from agents.contract.spec import AgentSpec

SMALL = {"hidden_sizes": [4], "jit_compile": False}
ROLLOUT = {**SMALL, "n_envs": 2, "n_steps": 16}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ppo", {**ROLLOUT, "batch_size": 24, "n_epochs": 3}),
        ("a2c", ROLLOUT),
        ("dqn", {**SMALL, "learning_starts": 32, "batch_size": 8, "train_freq": 4, "gradient_steps": 2, "n_envs": 2}),
    ],
)
def test_gradient_steps_are_those_of_a_run(name: str, params: dict[str, Any]) -> None:
    agent = agents.make(name, "CartPole-v1", seed=0, **params)
    result = agents.Trainer(agent, seed=0).train(env_steps=320, progress=False)
    estimated = gradient_steps_in(AgentSpec.of(name, "CartPole-v1", params).config, 320)
    assert estimated == pytest.approx(result.gradient_steps, rel=0.05)


def test_gradient_steps_of_random_replays_are_unknown() -> None:
    assert gradient_steps_in(AgentSpec.of("acer", "CartPole-v1").config, 1000) is None
