"""Tests of inference in NumPy: it gives the numbers of the network, and mirrors only known layers."""

import keras
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.networks.builders import Atoms, network, noisy_network
from agents.networks.distributions import GaussianHead
from agents.networks.dueling import Dueling, Streams, dueling_head
from agents.networks.inference import ACTIVATIONS, CompiledForward, NumpyMirror, is_dense, make_forward
from agents.networks.noisy import NoisyDense, NoisyNetwork


def with_random_weights(model, seed=0):
    """Set random weights, which are nowhere zero, and return the network."""
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.weights])
    return model


def flat_weights(model):
    return np.concatenate([weight.numpy().ravel() for weight in model.weights])


# --- the same numbers


@settings(max_examples=40, deadline=None)
@given(x=st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20), name=st.sampled_from(sorted(ACTIVATIONS)))
def test_activations_equal_those_of_keras(x, name):
    x = np.array(x, np.float32)
    result = ACTIVATIONS[name](x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, getattr(keras.activations, name)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), max_size=3),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    head=st.sampled_from(["dense", "no bias", "dueling", "gaussian", "noisy", "atoms", "streams"]),
    rows=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_mirror_equals_network(sizes, activation, head, rows, seed):
    heads = {
        "dense": lambda: [keras.layers.Dense(3, activation="tanh")],
        "no bias": lambda: [keras.layers.Dense(3, use_bias=False)],
        "dueling": lambda: [keras.layers.Dense(4), Dueling()],
        "gaussian": lambda: [GaussianHead(3)],
        "noisy": lambda: [NoisyDense(3)],
        "atoms": lambda: [keras.layers.Dense(12), Atoms(4), Dueling()],
        "streams": lambda: [
            Streams([[keras.layers.Dense(2, activation), keras.layers.Dense(1)], [NoisyDense(3)]]),
            Dueling(),
        ],
    }
    layers = [keras.layers.Dense(size, activation=activation) for size in sizes]
    model = with_random_weights(
        keras.Sequential([keras.Input((2, 2)), keras.layers.Flatten(), *layers, *heads[head]()]), seed
    )
    assert NumpyMirror.can_mirror(model)
    x = np.random.default_rng(seed).normal(size=(rows, 2, 2)).astype(np.float32)
    result = NumpyMirror(model)(x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, model(x), rtol=1e-5, atol=1e-5 * max(1.0, np.abs(result).max()))


def test_activation_layers_are_mirrored():
    model = with_random_weights(
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Activation("elu")])
    )
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(NumpyMirror(model)(x), model(x), rtol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), max_size=3),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    dueling=st.booleans(),
    rows=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
@pytest.mark.slow
def test_mirror_of_noisy_network_takes_noise(sizes, activation, dueling, rows, seed):
    space, rng = spaces.Box(-1.0, 1.0, (4,), np.float32), np.random.default_rng(seed)
    head = dueling_head(2, 2, 1, activation, lambda units, name=None: [NoisyDense(units), *activations(name)])
    shared = {"sigma": 0.5, "activation": activation, "behind": [Dueling()]}
    model = with_random_weights(noisy_network(space, sizes, 3, head=head if dueling else None, **shared), seed)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    noise = rng.normal(size=(rows, model.n_noise)).astype(np.float32)
    mirror = make_forward(model)
    assert isinstance(mirror, NumpyMirror)
    for own in (None, noise):
        result, expected = mirror(x, own), np.array(model(x, **({} if own is None else {"noise": own})))
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(expected).max()))


def activations(name):
    return [keras.layers.Activation(name)] if name else []


def test_streams_of_unknown_layers_are_compiled():
    stacks = [[keras.layers.Dense(2, activation=lambda x: x)], [keras.layers.Dense(1)]]
    assert isinstance(make_forward(keras.Sequential([keras.Input((3,)), Streams(stacks)])), CompiledForward)


def test_streams_can_be_saved(tmp_path):
    stacks = [[NoisyDense(2), keras.layers.Activation("relu")], [keras.layers.Dense(1)]]
    model, x = NoisyNetwork([keras.Input((3,)), Streams(stacks)]), np.ones((2, 3), np.float32)
    model.save(tmp_path / "model.keras")
    noise = np.ones((1, model.n_noise), np.float32)
    found = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(found(x, noise=noise), model(x, noise=noise))


def test_compiled_forward_takes_noise():
    model = with_random_weights(NoisyNetwork([keras.Input((3,)), keras.layers.LayerNormalization(), NoisyDense(2)]))
    forward, x = make_forward(model), np.array([[1.0, 2.0, 4.0]], np.float32)
    assert isinstance(forward, CompiledForward)
    noise = np.ones((1, model.n_noise), np.float32)
    np.testing.assert_allclose(forward(x, noise), model(x, noise=noise), rtol=1e-5)
    np.testing.assert_allclose(forward(x), model(x), rtol=1e-5)
    assert not np.allclose(forward(x), forward(x, noise))


# --- new weights


def test_refresh_copies_weights_of_network_and_load_given_weights():
    model = with_random_weights(
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), NoisyDense(3), Dueling()])
    )
    mirror, x = NumpyMirror(model), np.ones((2, 3), np.float32)
    before = mirror(x)
    with_random_weights(model, seed=1)
    np.testing.assert_array_equal(mirror(x), before)  # unchanged until refresh
    mirror.refresh()
    refreshed = mirror(x)
    np.testing.assert_allclose(refreshed, model(x), rtol=1e-5)
    with_random_weights(model, seed=2)
    rest = mirror.load(np.concatenate([flat_weights(model), [7.0, 8.0]]).astype(np.float32))
    assert rest.tolist() == [7.0, 8.0]
    loaded = mirror(x)
    np.testing.assert_allclose(loaded, model(x), rtol=1e-5)
    mirror.refresh()
    np.testing.assert_array_equal(mirror(x), loaded)


def test_compiled_forward_uses_current_weights():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.LayerNormalization()])
    forward, x = make_forward(model), np.ones((2, 3), np.float32)
    assert isinstance(forward, CompiledForward)
    with_random_weights(model, seed=1)
    np.testing.assert_allclose(forward(x), model(x), rtol=1e-5)


# --- networks that are not mirrored


def relu(x):
    """User-defined function with the name of an activation."""
    return keras.ops.maximum(x, 0.1 * x)


class Dense(keras.layers.Layer):
    """User-defined layer with the name of a Keras layer."""

    def call(self, x):
        return 2 * x


@pytest.mark.slow
def test_only_known_layers_are_mirrored():
    def sequential(*layers):
        return keras.Sequential([keras.Input((3,)), *layers])

    for layer in (
        keras.layers.Dense(2, activation="gelu"),
        keras.layers.Dense(2, activation=relu),
        keras.layers.Dense(2, activation=lambda x: x),
        keras.layers.LayerNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.LeakyReLU(),
        Dense(),
    ):
        assert not NumpyMirror.can_mirror(sequential(keras.layers.Dense(2), layer)), layer
    inputs = keras.Input((3,))
    functional = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert not NumpyMirror.can_mirror(functional)
    assert is_dense([sequential(keras.layers.Dense(2)), functional])
    assert not is_dense([sequential(keras.layers.Dense(2)), sequential(keras.layers.LayerNormalization())])
    assert isinstance(make_forward(sequential(keras.layers.Dense(2))), NumpyMirror)


def test_image_networks_are_computed_by_keras():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    model = network(space, (8,), 2)
    forward = make_forward(model)
    images = np.random.default_rng(0).integers(0, 256, (3, 36, 36, 1)).astype(np.uint8)
    np.testing.assert_allclose(forward(images), model(images), rtol=1e-4, atol=1e-5)
