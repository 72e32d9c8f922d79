"""Tests of published agents, with which other programs act during training."""

from __future__ import annotations

import os
import sys
import threading

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, NonFiniteError, Pool, Publish, Trainer, reach
from agents.algorithms.ppo import PPO
from agents.population import Population

SMALL = {"hidden_sizes": (8,), "jit_compile": False, "n_envs": 2}
SMALL_PPO = {**SMALL, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "learning_rate": 0.01}
OBSERVATIONS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


class PlaysAgainstPublished(gym.Env):
    """Environment that records the version of the published agent at the beginning of every episode."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, name):
        self.name, self.opponent = name, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.opponent is None:
            self.opponent = reach(self.name)
        self.opponent.refresh()
        agents.distributed.shared(f"versions of {self.name}", list).append((os.getpid(), self.opponent.version))
        self.t = 0
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        seen = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        won = int(action) != int(self.opponent.act(seen[None])[0])
        return seen, float(won), self.t == 10, False, {}


@pytest.fixture(autouse=True, scope="module")
def by_value():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_published_agent_acts_like_learner_after_refresh():
    agent = AgentSpec.of(PPO, "CartPole-v1", {**SMALL_PPO, "normalize_observations": True}).build(0)
    with Trainer(agent, callbacks=[Publish("twin")]) as trainer:
        trainer.train(env_steps=64)
        twin = reach("twin")
        np.testing.assert_array_equal(twin.act(OBSERVATIONS), agent.act(OBSERVATIONS, explore=False))
        assert not twin.refresh()
        before = twin.agent.acting_state()
        trainer.train(env_steps=320)
        np.testing.assert_array_equal(twin.agent.acting_state()[0], before[0])  # unchanged until refresh
        assert twin.refresh()
        for ours, theirs in zip(twin.agent.acting_state(), agent.acting_state(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert set(twin.act(OBSERVATIONS, explore=True).tolist()) == {0, 1}


@pytest.mark.slow
def test_published_agent_has_exploration_of_learner():
    params = {**SMALL, "learning_starts": 20, "exploration_steps": 400, "exploration_final_eps": 0.1}
    agent = AgentSpec.of("dqn", "CartPole-v1", params).build(0)
    with Trainer(agent, callbacks=[Publish("explorer")]) as trainer:
        trainer.train(env_steps=200)
        twin = reach("explorer")
        assert twin.agent.policy.epsilon == agent.policy.epsilon == pytest.approx(0.55)
        trainer.train(env_steps=400)
        twin.refresh()
        assert twin.agent.policy.epsilon == agent.policy.epsilon == pytest.approx(0.1)


@pytest.mark.slow
def test_non_finite_weights_are_not_published():
    agent = AgentSpec.of(PPO, "CartPole-v1", {**SMALL_PPO, "learning_rate": 1e30}).build(0)
    with Trainer(agent, callbacks=[Publish("diverged")]) as trainer, pytest.raises(NonFiniteError):
        trainer.train(env_steps=640)
    assert all(np.isfinite(values).all() for values in reach("diverged").agent.acting_state())


def test_reach_makes_no_environment():
    agent = AgentSpec.of(PPO, EnvironmentSpec(PlaysAgainstPublished, {"name": "itself"}), SMALL_PPO).build(0)
    with Trainer(agent, callbacks=[Publish("itself")]) as trainer:
        trainer.train(env_steps=32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnvironmentSpec, "make", lambda *_: pytest.fail("an environment was made"))
        reach("itself")


@pytest.mark.slow
def test_publish_interval_is_counted_in_updates():
    agent = AgentSpec.of(PPO, "CartPole-v1", SMALL_PPO).build(0)
    with Trainer(agent, callbacks=[Publish("seldom", every=3)]) as trainer:
        trainer.train(env_steps=8 * 32)
    assert reach("seldom").version == 1 + 2 + 1  # the beginning, updates 3 and 6 of 8, the end


def test_reach_waits_for_publication():
    agent = AgentSpec.of(PPO, "CartPole-v1", SMALL_PPO).build(0)
    found = []
    waiting = threading.Thread(target=lambda: found.append(reach("late")))
    waiting.start()
    waiting.join(timeout=0.3)
    assert waiting.is_alive()  # nothing is published yet
    with Trainer(agent, callbacks=[Publish("late")]) as trainer:
        trainer.train(env_steps=32)
    waiting.join(timeout=60.0)
    assert found[0].version >= 1


def test_unknown_names_and_populations_are_refused():
    with pytest.raises(ConfigurationError, match=r"No agent is published as 'nobody'.*agents.Publish\('nobody'\)"):
        reach("nobody", wait_seconds=0.2)
    with pytest.raises(ConfigurationError, match="every must be >= 1"):
        Publish("x", every=0)
    population = Population(AgentSpec.of(PPO, "CartPole-v1", SMALL_PPO), [{"seed": 0}, {"seed": 1}])
    with (
        Trainer(population, callbacks=[Publish("many")]) as trainer,
        pytest.raises(ConfigurationError, match="A population cannot be published"),
    ):
        trainer.train(env_steps=32)


@pytest.mark.real
@pytest.mark.parametrize("pool", [None, Pool(2)], ids=["here", "pool"])
def test_environment_acts_with_agent_that_learns_in_it(pool):
    name = f"player {pool}"
    agent = AgentSpec.of(PPO, EnvironmentSpec(PlaysAgainstPublished, {"name": name}), SMALL_PPO).build(0)
    with Trainer(agent, pool=pool, callbacks=[Publish(name)]) as trainer:
        trainer.train(env_steps=320)
        seen = agents.distributed.shared(f"versions of {name}", list).copy()
    versions = [version for _, version in seen]
    assert len(versions) == 2 + 2 * 16  # 2 copies, 16 episodes each
    processes = {process for process, _ in seen}
    assert len(processes) == (1 if pool is None else 2)
    for process in processes:
        own = [version for where, version in seen if where == process]
        assert sorted(own) == own
    assert min(versions) == 1
    assert max(versions) > 5
