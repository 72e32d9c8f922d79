"""Tests of agents that start from the weights of another one: its optimizers and running episodes are not theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import agents
from agents import AgentSpec, Trainer
from agents.population import Population

DQN: dict[str, Any] = {"learning_starts": 8, "batch_size": 4, "hidden_sizes": (4,), "jit_compile": False}
PPO: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden_sizes": (4,), "jit_compile": False}


def weights_of(agent: Any) -> list[Any]:
    return [weight.numpy() for weight in agent.networks["q"].weights]


@pytest.mark.parametrize("members", [0, 2])
def test_gradient_steps_continue_from_the_given_weights_with_an_optimizer_whose_state_contains_weights(members: int):
    """The first step of schedule-free AdamW sets the weights to about those in its state."""
    first = agents.make("dqn", "CartPole-v1", optimizer="schedulefreeadamw", learning_rate=1e-9, **DQN)
    first.networks["q"].set_weights([weights + 1.0 for weights in weights_of(first)])
    spec = AgentSpec.of(first)
    learner = Population(spec, [{"seed": 3 + i} for i in range(members)]) if members else spec.build(3)
    with Trainer(learner) as trainer:
        trainer.train(env_steps=12, progress=False)
    assert learner.gradient_steps > 0
    for started in [learner.extract(i) for i in range(members)] if members else [learner]:
        for given, own in zip(weights_of(first), weights_of(started), strict=True):
            np.testing.assert_allclose(own, given, atol=1e-5)


# --- sums of rewards of running episodes


def scaled_ppo(n_envs: int = 2, **params: Any) -> Any:
    return agents.make("ppo", "CartPole-v1", normalize_rewards=True, n_envs=n_envs, **PPO, **params)


def train(learner: Any, env_steps: int) -> None:
    with Trainer(learner) as trainer:
        trainer.train(env_steps=env_steps, progress=False)


@pytest.mark.parametrize("members", [0, 2])
@pytest.mark.parametrize("n_envs", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_agent_with_another_number_of_environments_starts_with_the_statistics_of_rewards(n_envs: int, members: int):
    first = scaled_ppo()
    train(first, 32)
    assert len(first.scaler.sums) == 2
    spec = AgentSpec.of(first).with_params({"n_envs": n_envs})
    learner = Population(spec, [{"seed": i} for i in range(members)]) if members else spec.build(3)
    for actor in learner.actors if members else [learner]:
        assert len(actor.scaler.sums) == 0
        assert actor.scaler.get_state() == first.scaler.get_state()
    train(learner, 8 * n_envs)


def test_sums_of_rewards_begin_anew_with_the_episodes_of_another_trainer():
    agent = scaled_ppo()
    train(agent, 32)
    seen: list[int] = []
    begins = agents.LambdaCallback(on_rollout_begin=lambda trainer: seen.append(len(agent.scaler.sums)))
    with Trainer(agent, callbacks=[begins]) as trainer:
        trainer.train(env_steps=32, progress=False)
    assert seen == [0, 2]


def test_sums_of_rewards_continue_with_restored_environments():
    with Trainer(scaled_ppo()) as straight, Trainer(scaled_ppo()) as resumed:
        straight.train(env_steps=32, progress=False)
        resumed.set_state(straight.get_state())
        for trainer in (straight, resumed):
            trainer.train(env_steps=16, progress=False)
        ours, theirs = (trainer.agent.scaler for trainer in (straight, resumed))
        assert ours.get_state() == theirs.get_state()
        np.testing.assert_array_equal(ours.sums, theirs.sums)


def test_evaluation_with_exploration_keeps_the_sums_of_rewards():
    agent = scaled_ppo()
    train(agent, 32)
    before = agent.scaler.sums.copy()
    agents.evaluate(agent, n_episodes=2, explore=True)
    np.testing.assert_array_equal(agent.scaler.sums, before)
    assert before.min() > 0.0


def test_sums_of_rewards_are_read_from_states_of_earlier_versions():
    agent = scaled_ppo()
    train(agent, 32)
    state = agent.get_state()
    sums = state["extra"].pop("reward_sums")
    state["extra"]["scaler"]["sums"] = sums
    other = scaled_ppo()
    other.set_state(state)
    np.testing.assert_array_equal(other.scaler.sums, sums)
