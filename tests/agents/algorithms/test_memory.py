"""Tests of agents with memory: sequences, ends of episodes, populations, resuming, pools, prediction, bad input."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from parity import assert_resumed_run_equals_uninterrupted_run, members_and_agents_alone

import agents
from agents import ConfigurationError, EnvironmentSpec, Trainer
from agents.algorithms.ppo import PPOConfig
from agents.buffers import SequenceReplay, Transition
from agents.buffers.sequences import in_sequences
from agents.collection.collector import Collector


class Recall(gym.Env[Any, Any]):
    """Shows a bit at the first step, nothing for `delay` steps, and rewards the action that repeats the bit."""

    def __init__(self, delay: int = 3) -> None:
        self.delay = delay
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.bit, self.time = int(self.np_random.integers(2)), 0
        return np.array([2.0 * self.bit - 1.0, 0.0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        over = self.time > self.delay
        reward = float(action == self.bit) if over else 0.0
        return np.array([0.0, self.time == self.delay], np.float32), reward, over, False, {}


SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 2, "sequence_length": 4},
    "a2c": {"n_envs": 2, "n_steps": 6, "sequence_length": 3},
    "dqn": {"learning_starts": 20, "batch_size": 12, "sequence_length": 4, "burn_in": 2, "n_envs": 2, "train_freq": 2},
}
ON_POLICY = ("a2c", "ppo")
SHARED: dict[str, Any] = {"hidden_sizes": (8,), "gru_units": 4, "jit_compile": False}


def params_of(algorithm: str, **changes: Any) -> dict[str, Any]:
    return {**SHARED, **SMALL[algorithm], **changes}


# --- sequences


@pytest.mark.parametrize(("n_steps", "length"), [(128, 16), (48, 16), (30, 15), (20, 10), (22, 11), (5, 5)])
def test_sequences_are_as_long_as_rollouts_allow(n_steps: int, length: int):
    assert PPOConfig(gru_units=4, n_steps=n_steps).steps_of_sequences(n_steps) == length


def test_rollout_is_split_into_sequences():
    seen = np.arange(4 * 2 * 3, dtype=np.float32).reshape(4, 2, 3)  # [T, N, F + M], F = 1, M = 2
    ended = np.array([[False, True], [True, False], [False, False], [False, True]])
    columns = in_sequences({"observations": seen[..., :1], "advantages": seen[..., 0]}, seen[..., 1:], ended, 2)
    np.testing.assert_array_equal(columns["observations"][0, 1, :, 0], [3.0, 9.0])  # steps 0 and 1 of environment 1
    np.testing.assert_array_equal(columns["advantages"][1, 0], [12.0, 18.0])
    np.testing.assert_array_equal(columns["memory"], [[[1, 2], [4, 5]], [[13, 14], [16, 17]]])
    np.testing.assert_array_equal(columns["begins"], [[[0, 0], [0, 1]], [[0, 0], [0, 0]]])


def test_collector_keeps_memories_until_the_end_of_an_episode():
    agent = agents.make("ppo", EnvironmentSpec(Recall, {"delay": 2}), **params_of("ppo"))
    collector = Collector(agent.environment, 2, [0])
    before = np.zeros((2, 8), np.float32)
    for t in range(7):
        transition = collector.step(agent, True).transition
        np.testing.assert_array_equal(transition.observations[:, 2:], before)
        assert agent.memory is not None
        np.testing.assert_array_equal(transition.next_observations[:, 2:], agent.memory)
        assert np.abs(agent.memory).min() > 0.0
        before = np.zeros((2, 8), np.float32) if t % 3 == 2 else agent.memory


@pytest.mark.parametrize("algorithm", ON_POLICY)
def test_sequences_of_a_rollout_reproduce_the_acting_policy(algorithm: str):
    """The loss runs through sequences; the rollout was acted step by step, in NumPy. Both give the same policy."""
    agent = agents.make(algorithm, EnvironmentSpec(Recall, {"delay": 1}), seed=1, **params_of(algorithm))
    collector, buffer = Collector(agent.environment, 2, [0]), agent.new_buffer(2, [0])
    while not buffer.ready:
        buffer.add(collector.step(agent, True).transition)
    batches = buffer.batches(agent.preprocess_batch(buffer.sample()))
    batch = {name: values[batches.indices[0]] for name, values in batches.data.items()}
    assert batch["begins"].any()
    log_probs = agent.distribution.log_prob(agent.outputs("actor", batch), agent.steps(batch)["actions"])
    np.testing.assert_allclose(log_probs, batch["log_probs"].ravel(), rtol=1e-4, atol=1e-5)
    values = np.asarray(agent.outputs("critic", batch))[:, 0]
    np.testing.assert_allclose(values, (batch["returns"] - batch["advantages"]).ravel(), rtol=1e-3, atol=1e-5)


def test_replay_draws_consecutive_steps_and_marks_beginnings():
    replay = SequenceReplay(length=3, batch_size=6, buffer_size=16, n_envs=2, rng=np.random.default_rng(0))
    for t in range(12):  # the ring has room for eight steps of each environment
        column = np.array([[t, 0.0], [t, 1.0]], np.float32)
        ended = np.array([t % 4 == 1, t % 5 == 2])
        replay.add(Transition(column, np.array([t, t]), column[:, 0], column + 1, ended, np.zeros(2, bool)))
    assert replay.ready
    data = replay.draw(200)
    times, environments = data["observations"][..., 0], data["observations"][..., 1]
    assert times.shape == (200, 3)
    np.testing.assert_array_equal(np.diff(times, axis=1), 1.0)
    assert (environments == environments[:, :1]).all()
    assert set(times[:, 0]) == set(range(4, 10))
    np.testing.assert_array_equal(data["next_observations"][..., 0], times + 1)
    ends = np.where(environments == 0.0, times % 4 == 1, times % 5 == 2)
    np.testing.assert_array_equal(data["begins"][:, 1:], ends[:, :-1])
    assert not data["begins"][:, 0].any()
    batches = replay.batches(replay.sample())
    assert batches.indices.shape == (1, 2)  # two sequences of three steps are a minibatch of six


def test_minibatches_have_as_many_learned_steps_as_batch_size():
    params = params_of("dqn", batch_size=64, sequence_length=8, burn_in=8, buffer_size=1000)
    replay = agents.make("dqn", EnvironmentSpec(Recall), **params).make_buffer(2, np.random.default_rng(0))
    assert isinstance(replay, SequenceReplay)
    assert (replay.batch_size, replay.length) == (8, 16)  # 8 sequences of 8 steps and as many before them
    with_rest = SequenceReplay(
        length=5, burn_in=2, batch_size=7, buffer_size=50, n_envs=1, rng=np.random.default_rng(0)
    )
    assert with_rest.batch_size == 3


def test_loss_of_sequences_equals_steps_by_hand():
    rng = np.random.default_rng(0)
    params = params_of("dqn", double=True, gamma=0.9, burn_in=1, sequence_length=3)
    agent = agents.make("dqn", EnvironmentSpec(Recall), seed=0, **params)
    target = agent.networks["target"]
    target.set_weights([rng.standard_normal(weight.shape) for weight in target.weights])
    seen, following = rng.standard_normal((2, 2, 4, 2 + 4)).astype(np.float32)
    rewards, terminated = rng.standard_normal((2, 4)).astype(np.float32), rng.random((2, 4)) < 0.3
    begins, actions = rng.random((2, 4)) < 0.4, rng.integers(0, 2, (2, 4)).astype(np.int32)
    begins[:, 0] = False
    rewards[0, 3] = 3.0  # an error beyond 1, where Huber's loss is linear
    data = {"observations": seen, "next_observations": following, "rewards": rewards, "terminated": terminated}
    batch = agent.preprocess_batch({**data, "begins": begins, "actions": actions})
    values, errors = [], []
    for row in range(2):
        memories = dict.fromkeys(("q", "target"), seen[row, :1, 2:])
        for t in range(4):
            outputs, after = {}, {}
            for name in ("q", "target"):
                memory = np.where(begins[row, t], 0.0, memories[name])
                step = np.asarray(agent.networks[name](np.concatenate([seen[row, t : t + 1, :2], memory], axis=1)))
                outputs[name], memories[name] = step[0, :2], step[:, 2:]
                rows = np.concatenate([following[row, t : t + 1, :2], memories[name]], axis=1)
                after[name] = np.asarray(agent.networks[name](rows))[0, :2]
            if t < 1:
                continue  # the burn-in
            goal = rewards[row, t] + 0.9 * (1.0 - terminated[row, t]) * after["target"][np.argmax(after["q"])]
            values.append(outputs["q"][actions[row, t]])
            errors.append(values[-1] - goal)
    losses, sizes = agent.loss(batch), np.abs(errors)
    assert sizes.min() < 1.0 < sizes.max()
    huber = np.where(sizes < 1.0, 0.5 * sizes**2, sizes - 0.5)
    np.testing.assert_allclose(losses["default"], np.mean(huber), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.mean(sizes), rtol=1e-4)
    np.testing.assert_allclose(losses["q_mean"], np.mean(values), rtol=1e-4, atol=1e-6)


# --- training


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", sorted(SMALL))
def test_population_members_equal_agents_trained_alone(algorithm: str, normalized: bool):
    params = params_of(algorithm, **({"normalize_observations": normalized} if algorithm in ON_POLICY else {}))
    for member, alone in members_and_agents_alone(algorithm, EnvironmentSpec(Recall), params):
        assert alone.history.returns == member.history.returns


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", sorted(SMALL))
def test_resumed_run_equals_uninterrupted_run(algorithm: str):
    def make() -> Trainer:
        return Trainer(agents.make(algorithm, EnvironmentSpec(Recall), seed=1, **params_of(algorithm)))

    assert_resumed_run_equals_uninterrupted_run(make, until=60, at=42)


@pytest.mark.real
def test_processes_of_a_pool_keep_memories():
    agent = agents.make("ppo", EnvironmentSpec(Recall, {"delay": 2}), seed=1, **params_of("ppo", n_envs=2))
    with Trainer(agent, pool=2) as trainer:
        trainer.train(env_steps=10)
        rollout = trainer.buffer.sample()
    memories, following = (rollout[name][..., 2:] for name in ("observations", "next_observations"))
    ended = rollout["terminated"]
    assert ended.any()
    assert np.abs(following).min() > 0.0
    np.testing.assert_array_equal(memories[1:], np.where(ended[:-1, :, None], 0.0, following[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
@pytest.mark.parametrize(("gru_units", "lowest", "highest"), [(16, 0.95, 1.0), (None, 0.0, 0.75)])
def test_only_agents_with_memory_recall_an_earlier_observation(
    algorithm: str, gru_units: int | None, lowest: float, highest: float
):
    on_policy = {"n_envs": 8, "n_steps": 32, "batch_size": 64, "n_epochs": 8, "learning_rate": 3e-3}
    off_policy = {"n_envs": 4, "learning_starts": 500, "exploration_steps": 5000, "learning_rate": 3e-3}
    params = on_policy if algorithm == "ppo" else off_policy
    agent = agents.make(algorithm, EnvironmentSpec(Recall), seed=0, hidden_sizes=(16,), **params, gru_units=gru_units)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=16_000, progress=False)
    assert lowest <= agents.evaluate(agent, n_episodes=100).mean() <= highest


# --- prediction


def test_predict_keeps_its_memory_until_forget():
    agent = agents.make("ppo", EnvironmentSpec(Recall), seed=0, **params_of("ppo"))
    shown = np.array([1.0, 0.0], np.float32)
    first = agent.predict(shown)
    assert agent.memory is not None
    after_one = agent.memory.copy()
    agent.predict(shown)
    assert not np.array_equal(agent.memory, after_one)
    agent.forget()
    assert agent.predict(shown) == first
    np.testing.assert_array_equal(agent.memory, after_one)
    agent.predict(np.stack([shown, shown]))  # another number of rows begins with no memory
    np.testing.assert_allclose(agent.memory, np.stack([after_one[0]] * 2), rtol=1e-4, atol=1e-6)


# --- bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sequence_length": 8}, "sequence_length=8 needs gru_units"),
        ({"gru_units": 8, "n_steps": 10, "sequence_length": 4}, "sequence_length must divide n_steps = 10, got 4"),
        ({"gru_units": 8, "n_steps": 17}, "n_steps=17 cannot be split into sequences of 2 to 16 steps"),
        ({"gru_units": 8, "share_layers": True}, "memories of their own: leave out share_layers or gru_units"),
        ({"gru_units": 0}, "gru_units"),
    ],
)
def test_contradictory_settings_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        agents.make("ppo", "CartPole-v1", **params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"burn_in": 4}, "burn_in=4 needs gru_units"),
        ({"gru_units": 8, "replay": "prioritized"}, "replay must be 'uniform', got 'prioritized'"),
        ({"gru_units": 8, "n_step": 3}, "n_step must be 1, got 3"),
        ({"gru_units": 8, "dueling": True}, "dueling must be False"),
        ({"gru_units": 8, "buffer_size": 10, "sequence_length": 20}, "buffer_size must be at least .* 20"),
    ],
)
def test_settings_without_a_replay_of_sequences_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        agents.make("dqn", "CartPole-v1", **params).new_buffer(1, [0])


def test_images_are_refused():
    class Pictures(Recall):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 255, (40, 40, 3), np.uint8)

    with pytest.raises(ConfigurationError, match=r"gru_units needs vectors .* has the shape \[40, 40, 3\]"):
        agents.make("ppo", EnvironmentSpec(Pictures), gru_units=8)
