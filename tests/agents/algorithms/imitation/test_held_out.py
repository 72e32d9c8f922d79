"""Tests of demonstrations that are held out: they are not learned from, and agents are judged by the loss on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("minari")

from parity import members_and_agents_alone

import agents
from agents import ConfigurationError, Trainer
from agents.algorithms.imitation.composed import with_prefixes

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False, "held_out_episodes": 1}
PPO = {"n_envs": 2, "n_steps": 10, "batch_size": 10, "n_epochs": 2}
REPLAY = {"learning_starts": 20, "batch_size": 8}
CLONED = {"pretrain_steps": 7}
KINDS: list[Any] = [
    pytest.param("bc", "CartPole-v1", {"n_envs": 2, "n_steps": 10}, id="bc"),
    pytest.param("bc-ppo", "CartPole-v1", {**PPO, **CLONED}, id="bc-ppo"),
    pytest.param("bc-dqn", "CartPole-v1", {**REPLAY, **CLONED}, id="bc-dqn"),
    pytest.param("bc-sac", "Pendulum-v1", {**REPLAY, **CLONED}, id="bc-sac"),
    pytest.param("gail-ppo", "Pendulum-v1", {**PPO, "normalize_observations": True}, id="gail-ppo"),
    pytest.param("airl-sac", "Pendulum-v1", REPLAY, id="airl-sac", marks=pytest.mark.slow),
    pytest.param("bc-gail-ppo", "CartPole-v1", {**PPO, **CLONED, "cloning_coef": 0.5}, id="bc-gail-ppo"),
]


def small(environment: str, params: dict[str, Any]) -> dict[str, Any]:
    return {**SMALL, "expert": "balance" if environment == "CartPole-v1" else "swing", **params}


class Updates(agents.Callback):
    """Keeps the results of updates."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_update_end(self, trainer: Trainer, update: Any) -> None:
        self.seen.append(update)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), KINDS)
def test_loss_of_an_update_is_that_on_held_out_demonstrations(name: str, environment: str, params: dict[str, Any]):
    agent, updates = agents.make(name, environment, **small(environment, params)), Updates()
    with Trainer(agent, callbacks=[updates]) as trainer:
        trainer.train(env_steps=60)
    assert updates.seen
    for update in updates.seen:
        assert update.loss == pytest.approx(float(update.metrics["held_out_loss"].mean()))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), KINDS[1:])
def test_held_out_steps_are_those_of_the_last_demonstrations(name: str, environment: str, params: dict[str, Any]):
    as_they_are = {key: value for key, value in params.items() if key != "normalize_observations"}
    agent = agents.make(name, environment, **small(environment, as_they_are))
    expert, n = agent.demonstrations, agent.n_learned
    assert n == expert.lengths[:2].sum()
    held_out, preprocess, drawn = {*map(bytes, expert.observations[n:])}, agent.preprocess_batch, []

    def watched(data: dict[str, Any]) -> dict[str, Any]:
        columns = preprocess(data)
        drawn.extend(columns["held_out_observations"].reshape(-1, *agent.observation_space.shape))
        return columns

    agent.preprocess_batch = watched
    with Trainer(agent) as trainer:
        trainer.train(env_steps=60)
    assert drawn
    assert {*map(bytes, drawn)} <= held_out
    assert agent.rows_of_expert((500, 2)).max() < n


def test_loss_on_held_out_demonstrations_is_not_that_of_training():
    """Dropout would add noise, and normalization would learn from rows that are held out."""
    agent = agents.make("bc", "CartPole-v1", **small("CartPole-v1", {}))
    modes: list[bool] = []
    actor = agent.networks["actor"]
    agent.networks["actor"] = lambda rows, training: (modes.append(training), actor(rows))[1]
    (step,) = agent.optimizer_steps()
    buffer = agent.new_buffer(2, [0])
    step.loss({name: tf.constant(rows) for name, rows in agent.preprocess_batch(buffer.sample()).items()})
    assert sorted(modes) == [False, True]


def test_expert_is_scaled_by_what_is_learned_from():
    agent = agents.make("gail-ppo", "CartPole-v1", **small("CartPole-v1", {**PPO, "held_out_episodes": 2}))
    assert agent.n_learned == agent.demonstrations.lengths[0]
    learned = agent.demonstrations.observations[: agent.n_learned]
    np.testing.assert_allclose(agent.scale.mean, learned.mean(axis=0, dtype=np.float64), rtol=1e-5)


def test_loss_on_held_out_demonstrations_by_hand():
    """The policy of a discrete agent: the mean negative logarithm of the softmax at the expert's actions."""
    agent = agents.make("gail-ppo", "CartPole-v1", **small("CartPole-v1", PPO))
    n = agent.n_learned
    seen, actions = agent.demonstrations.observations[n : n + 5], agent.demonstrations.actions[n : n + 5]
    logits = np.asarray(agent.networks["actor"](seen), np.float64)
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), actions]
    loss = agent.cloning_loss({"observations": tf.constant(seen), "actions": tf.constant(actions)})
    assert float(loss) == pytest.approx(expected.mean(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), KINDS[4:6])
def test_population_members_equal_agents_trained_alone(name: str, environment: str, params: dict[str, Any]):
    for run, single in members_and_agents_alone(name, environment, small(environment, params)):
        assert [episode.loss for episode in run.history.episodes] == pytest.approx(
            [episode.loss for episode in single.history.episodes], rel=1e-4
        )


class Plain(agents.PPO):
    """An agent that does not say what its loss on demonstrations is."""

    cloning_loss = None


def test_agent_without_a_loss_on_demonstrations_holds_nothing_out():
    with pytest.raises(ConfigurationError, match="has no loss on demonstrations: leave out held_out_episodes"):
        agents.make(with_prefixes(Plain, ["gail"]), "CartPole-v1", **small("CartPole-v1", PPO))
