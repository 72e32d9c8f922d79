"""Memory and time of a member: estimates by hand."""

import numpy as np
import pytest

from agents import AgentSpec
from agents.algorithms.imitation.demonstration_buffer import DemonstrationBuffer
from agents.backend.tensorflow import keras
from agents.buffers import RolloutBuffer, TrajectoryReplay, UniformReplay
from agents.buffers.sequences import SequenceReplay
from agents.contract.keras_agent import KerasAgent
from agents.population.size import _uses_of_weights, seconds_per_step

RNG = np.random.default_rng(0)


def test_rows_of_minibatches_for_each_environment_step():
    assert RolloutBuffer(n_steps=128, n_epochs=10, batch_size=64, rng=RNG).rows_per_step == 10.0  # ten times each
    arguments = {"buffer_size": 1_000, "rng": RNG, "n_envs": 2, "train_freq": 4, "gradient_steps": 3}
    assert UniformReplay(batch_size=64, **arguments).rows_per_step == 64 * 3 / (4 * 2)
    assert SequenceReplay(length=8, batch_size=64, **arguments).rows_per_step == 8 * 8 * 3 / (4 * 2)
    with_burn_in = SequenceReplay(length=8, burn_in=4, batch_size=64, **arguments)
    assert with_burn_in.rows_per_step == 16 * 8 * 3 / (4 * 2)  # 16 sequences, of which all 8 steps are computed
    replayed = TrajectoryReplay(n_steps=5, buffer_size=100, replay_ratio=4, n_envs=2, rng=RNG)
    assert replayed.rows_per_step == 1 + 4  # the rollout, and four minibatches of its size
    columns = {"observations": np.zeros((3, 2))}
    cloning = DemonstrationBuffer(columns, n_steps=32, n_envs=8, gradient_steps=32, batch_size=64, rng=RNG)
    assert cloning.rows_per_step == 32 * 64 / (32 * 8) == 8


def test_seconds_of_a_step_count_every_weight_of_every_row():
    agent = AgentSpec.of("dqn", "CartPole-v1", {"hidden_sizes": [8], "batch_size": 4, "train_freq": 2}).build()
    assert isinstance(agent, KerasAgent)
    weights = 4 * 8 + 8 + 8 * 2 + 2  # of the network, and of its target
    assert seconds_per_step(agent) == pytest.approx(2e-5 + 6 * (2 * weights) * (4 / 2) / 1e11)


def test_weights_of_a_convolution_are_used_at_every_position():
    images = keras.Input((8, 8, 3))
    convolution = keras.layers.Conv2D(5, 3, padding="valid")
    convolution(images)
    assert _uses_of_weights(convolution) == 6 * 6 * (3 * 3 * 3 * 5 + 5)
