"""Tests of the example DQN of the documentation: learning, populations and the refusal of unsuitable settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
from agents import AgentConfig, ConfigurationError, OffPolicyConfig, Trainer
from agents.contract.registry import agent_class
from finder import LRFinder

PLACE = f"{Path(__file__).parents[3] / 'examples' / 'your_own_dqn.py'}:QLearner"
SMALL: dict[str, Any] = {
    **{"hidden_sizes": [8], "batch_size": 8, "learning_starts": 32, "train_freq": 8, "target_update_interval": 3},
    **{"exploration_steps": 100, "jit_compile": False},
}


@pytest.mark.slow
def test_example_dqn_learns_updates_target_and_reduces_exploration():
    agent = agents.make(PLACE, "fakes:TwoStep-v0", **SMALL)
    before = [np.array(weights) for weights in agent.networks["q"].weights]
    with Trainer(agent) as trainer:
        trainer.train(env_steps=32 + 3 * 8)  # three gradient steps: the target has just been updated
        own, target = ([np.array(each) for each in agent.networks[name].weights] for name in ("q", "target"))
        assert any((now != then).any() for now, then in zip(own, before, strict=True))
        for one, other in zip(own, target, strict=True):
            np.testing.assert_array_equal(one, other)
        trainer.train(env_steps=8)
        assert any((np.array(a) != b).any() for a, b in zip(agent.networks["q"].weights, target, strict=True))
        trainer.train(env_steps=200)
    assert agent.policy.epsilon == pytest.approx(0.05)


@pytest.mark.slow
def test_example_dqn_trains_equally_in_population_and_alone():
    returns = {}
    for executor in ("inline", "population"):
        options: dict[str, Any] = {"seeds": 2, "storage": None, "confirm": 0, "pruner": "none", "env_steps": 300}
        finder = LRFinder(PLACE, "fakes:TwoStep-v0")
        result = finder.grid(rates=[1e-3, 1e-2], executor=executor, n_jobs=1, fixed=SMALL, **options)
        assert list(result.table()["state"]) == ["COMPLETE"] * 2
        frame = result.study.storage.episodes.frame(result.study.episodes_key)
        returns[executor] = frame.sort_values(["trial_number", "seed", "episode"])["episode_return"].tolist()
    assert returns["inline"] == returns["population"]


def test_config_without_target_settings_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Bare(AgentConfig):
        pass

    class Own(agent_class(PLACE)):  # type: ignore[misc]
        config_class = Bare

    with pytest.raises(ConfigurationError, match=r"make it a subclass of agents\.OffPolicyConfig"):
        agents.make(Own, "fakes:TwoStep-v0")
    assert {"tau", "target_update_interval", "replay"} <= set(OffPolicyConfig.describe())
