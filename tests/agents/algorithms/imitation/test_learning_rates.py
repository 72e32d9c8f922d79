"""Tests of changes of the learning rate while an agent trains that learns its reward."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("minari")

import agents

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "reward_hidden_sizes": (4,), "jit_compile": False, "expert": "balance"}


def rates(agent: Any) -> tuple[float, float]:
    return agent.get_learning_rate(), agent.get_learning_rate("reward")


@pytest.mark.parametrize("reward", ["gail", "airl"])
def test_reward_networks_keep_their_rate_when_that_of_the_agent_changes(reward: str):
    agent = agents.make(f"{reward}-ppo", "CartPole-v1", **SMALL)
    agent.set_learning_rate(0.5)
    assert rates(agent) == pytest.approx((0.5, 1e-3))
    agent.set_hyperparameter("learning_rate", 0.25)
    assert rates(agent) == pytest.approx((0.25, 1e-3))
    agent.set_hyperparameter("reward.learning_rate", 0.125)
    assert rates(agent) == pytest.approx((0.25, 0.125))
    agent.set_hyperparameter("learning_rate", 0.5)  # also where the rate of the reward is set in the config
    assert rates(agent) == pytest.approx((0.5, 0.125))
    assert agent.optimizer_spec("reward").learning_rate == 0.125
    agent.set_learning_rate(0.0625, "reward")
    assert rates(agent) == pytest.approx((0.5, 0.0625))
