"""Gradients of matrix products in forms for XLA: the same numbers as TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from agents.backend.custom_gradients import gradient_table
from agents.backend.product_gradients import fast_product_gradients
from agents.backend.tensorflow import keras, tf

SHAPES = [(5, 4, 1), (5, 4, 2), (5, 4, 3), (5, 4, 4), (5, 40, 33), (5, 3, 64), (1, 1, 1), (130, 4, 40), (7, 40, 5)]


def compiled(function: Callable[..., Any], context: AbstractContextManager[None], *inputs: Any) -> list[Any]:
    with context:
        traced = tf.function(function, jit_compile=True, autograph=False).get_concrete_function(
            *[tf.TensorSpec(each.shape, each.dtype) for each in inputs]
        )
    return [each.numpy() for each in traced(*map(tf.constant, inputs))]


def both_ways(function: Callable[..., Any], *inputs: Any) -> tuple[list[Any], list[Any]]:
    return compiled(function, fast_product_gradients(), *inputs), compiled(function, nullcontext(), *inputs)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_the_product(shape: tuple[int, int, int]) -> None:
    n_rows, n_inputs, n_outputs = shape
    rng = np.random.default_rng(0)
    x, w, upstream = (
        rng.normal(size=size).astype(np.float32)
        for size in ((n_rows, n_inputs), (n_inputs, n_outputs), (n_rows, n_outputs))
    )

    def gradients(x: Any, w: Any, upstream: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.matmul(x, w)
        return tape.gradient(y, [x, w], output_gradients=upstream)

    of_inputs, of_weights = compiled(gradients, fast_product_gradients(), x, w, upstream)
    np.testing.assert_allclose(of_inputs, upstream @ w.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_weights, x.T @ upstream, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", None])
@pytest.mark.parametrize("n_rows", [8, 256])
def test_gradients_of_a_network(activation: str | None, n_rows: int) -> None:
    keras.utils.set_random_seed(0)
    sizes = (48, 40, 2)
    network = keras.Sequential([keras.Input((3,)), *(keras.layers.Dense(n, activation=activation) for n in sizes)])

    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(network(x)))
        return tape.gradient(loss, [x, *(each.value for each in network.trainable_variables)])

    x = np.random.default_rng(0).normal(size=(n_rows, 3)).astype(np.float32)
    for own, ordinary in zip(*both_ways(gradients, x), strict=True):
        np.testing.assert_allclose(own, ordinary, rtol=2e-5, atol=1e-6)


def test_second_derivatives() -> None:
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])

    def penalty(x: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                tape.watch(x)
                values = network(x)
            loss = tf.reduce_sum(tf.square(tape.gradient(values, x)))
        return outer.gradient(loss, [each.value for each in network.trainable_variables[:3]])

    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    for own, ordinary in zip(*both_ways(penalty, x), strict=True):
        np.testing.assert_allclose(own, ordinary, rtol=2e-5, atol=1e-6)


def test_products_with_transposed_matrices_are_left_alone() -> None:
    def gradients(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.matmul(x, w, transpose_b=True)
        return tape.gradient(y, [x, w])

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(2, 4)).astype(np.float32)
    for own, ordinary in zip(*both_ways(gradients, x, w), strict=True):
        np.testing.assert_allclose(own, ordinary, rtol=1e-6)


def test_tensorflow_has_its_own_gradient_afterwards() -> None:
    before = gradient_table()["MatMul"]["type"]

    def fail() -> None:
        assert gradient_table()["MatMul"]["type"] is not before
        raise KeyError

    with pytest.raises(KeyError), fast_product_gradients():
        fail()
    assert gradient_table()["MatMul"]["type"] is before
