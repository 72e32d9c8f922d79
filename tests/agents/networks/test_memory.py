"""Tests of networks with memory: Keras's GRU, sequences and single steps, NumPy and TensorFlow, saved layers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from agents.networks.inference import NumpyMirror, is_dense
from agents.networks.memory import Recurrent, recurrent_network, recurrent_of
from agents.networks.several_agents import LogDeviations, agents_network, agents_sequence


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def network(rng: np.random.Generator) -> Any:
    made = recurrent_network(3, [keras.layers.Dense(8, activation="tanh")], 4, [keras.layers.Dense(2)])
    made.set_weights([rng.standard_normal(weight.shape) for weight in made.weights])
    return made


def test_memories_of_a_sequence_equal_those_of_keras(network: Any, rng: np.random.Generator):
    layer = recurrent_of(network)
    gru = keras.layers.GRU(4, reset_after=True, return_sequences=True)
    gru.build((None, 6, 8))
    gru.cell.kernel.assign(layer.unit.kernel)
    gru.cell.recurrent_kernel.assign(layer.unit.recurrent)
    gru.cell.bias.assign(np.stack([layer.unit.bias, layer.unit.recurrent_bias]))
    features, memory = rng.standard_normal((5, 6, 3)), rng.standard_normal((5, 4))
    _, memories = layer.sequence(features.astype(np.float32), memory.astype(np.float32), np.zeros((5, 6)))
    expected = gru(layer._body[0](features.astype(np.float32)), initial_state=memory.astype(np.float32))
    np.testing.assert_allclose(memories, expected, rtol=1e-4, atol=1e-5)


def test_sequence_equals_single_steps_with_zero_memory_where_episodes_begin(network: Any, rng: np.random.Generator):
    features, memory = rng.standard_normal((5, 6, 3)).astype(np.float32), rng.standard_normal((5, 4)).astype(np.float32)
    begins = rng.random((5, 6)) < 0.4
    outputs, memories = recurrent_of(network).sequence(features, memory, begins)
    for t in range(6):
        memory = np.where(begins[:, t : t + 1], 0.0, memory)
        rows = np.asarray(network(np.concatenate([features[:, t], memory], axis=1)))
        memory = rows[:, 2:]
        np.testing.assert_allclose(outputs[:, t], rows[:, :2], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(memories[:, t], memory, rtol=1e-4, atol=1e-5)


def test_numpy_gives_the_same_for_one_agent_and_for_members(network: Any, rng: np.random.Generator):
    assert NumpyMirror.can_mirror(network)
    assert is_dense([network])
    assert_numpy_gives_the_same(network, rng.standard_normal((5, 7)).astype(np.float32), rng)


def assert_numpy_gives_the_same(network: Any, rows: Any, rng: np.random.Generator) -> None:
    """Assert that NumPy computes the network's outputs for its own weights, and for those of three members at once."""
    mirror = NumpyMirror(network)
    np.testing.assert_allclose(mirror(rows), network(rows), rtol=1e-4, atol=1e-6)
    members = [[rng.standard_normal(weight.shape).astype(np.float32) for weight in network.weights] for _ in range(3)]
    mirror.load_members([np.stack(values) for values in zip(*members, strict=True)])
    together = mirror(np.broadcast_to(rows, (3, *rows.shape)))
    for own, weights in zip(together, members, strict=True):
        network.set_weights(weights)
        np.testing.assert_allclose(own, network(rows), rtol=1e-4, atol=1e-5)


def test_saved_layer_is_the_same_layer(network: Any, rng: np.random.Generator):
    layer = recurrent_of(network)
    other = Recurrent.from_config(layer.get_config())
    rows = rng.standard_normal((2, 7)).astype(np.float32)
    other(rows)
    other.set_weights(layer.get_weights())
    np.testing.assert_allclose(other(rows), layer(rows), rtol=1e-6)


# --- several agents


def network_of_three(rng: np.random.Generator, shared: bool, head: bool) -> Any:
    """Network [B, 3, 2 + 4] -> [B, 3, outputs + 4] with random weights."""
    last = [LogDeviations(shared)] if head else []
    made = agents_network(3, 2, (8,), 5, activation="tanh", shared=shared, memory=4, head=last)
    made.set_weights([rng.standard_normal(weight.shape) for weight in made.weights])
    return made


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_sequence_of_agents_equals_single_steps(shared: bool, head: bool, rng: np.random.Generator):
    network = network_of_three(rng, shared, head)
    features = rng.standard_normal((5, 6, 3, 2)).astype(np.float32)
    memory, begins = rng.standard_normal((5, 3, 4)).astype(np.float32), rng.random((5, 6)) < 0.4
    outputs, memories = agents_sequence(network, features, memory, begins)
    assert outputs.shape == (5, 6, 3, 10 if head else 5)
    for t in range(6):
        memory = np.where(begins[:, t, None, None], 0.0, memory)
        rows = np.asarray(network(np.concatenate([features[:, t], memory], axis=2)))
        memory = rows[..., -4:]
        np.testing.assert_allclose(outputs[:, t], rows[..., :-4], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(memories[:, t], memory, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_numpy_gives_the_same_for_agents(shared: bool, head: bool, rng: np.random.Generator):
    rows = rng.standard_normal((5, 3, 6)).astype(np.float32)
    assert_numpy_gives_the_same(network_of_three(rng, shared, head), rows, rng)


def test_agents_with_weights_of_their_own_equal_networks_of_one_agent(rng: np.random.Generator):
    network, rows = network_of_three(rng, False, False), rng.standard_normal((5, 3, 6)).astype(np.float32)
    together = network(rows)
    for i in range(3):
        alone = recurrent_network(2, [keras.layers.Dense(8, activation="tanh")], 4, [keras.layers.Dense(5)])
        alone.set_weights([weight[i] for weight in network.get_weights()])
        np.testing.assert_allclose(together[:, i], alone(rows[:, i]), rtol=1e-4, atol=1e-5)
