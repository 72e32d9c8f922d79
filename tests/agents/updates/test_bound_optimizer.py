"""Optimizers that step on one vector: the same steps and the same state as on the weights one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.backend.tensorflow import keras, tf
from agents.backend.variables import values_of
from agents.config.optimizers import KERAS_OPTIMIZERS, OptimizerSpec, variables_of
from agents.updates.bound_optimizer import BoundOptimizer

ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "adam": [{}, {"amsgrad": True, "use_ema": True, "ema_overwrite_frequency": 2}, {"gradient_accumulation_steps": 2}],
    "adamw": [{"weight_decay": 0.1, "global_clipnorm": 0.5}],
    "rmsprop": [{"momentum": 0.9, "centered": True}],
    "sgd": [{}, {"momentum": 0.9, "nesterov": True}, {"clipvalue": 0.01}, {"clipnorm": 0.1}],
}
SPECS = [
    OptimizerSpec(name=name, learning_rate=0.05, arguments=arguments)
    for name in KERAS_OPTIMIZERS
    for arguments in ARGUMENTS.get(name, [{}])
]
SHAPES = [(4, 3), (3,), (3, 2), (2,)]


def new_weights() -> list[Any]:
    rng = np.random.default_rng(0)
    return [keras.Variable(rng.normal(size=shape), dtype="float32") for shape in SHAPES]


def train(bound: BoundOptimizer, n_steps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(n_steps):
        gradients = [tf.constant(rng.normal(size=shape), tf.float32) for shape in SHAPES]
        bound.apply(bound.joined(gradients))


def assert_close(one: list[Any], other: list[Any]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.label)
def test_steps_and_state_are_those_of_the_weights_one_by_one(spec: OptimizerSpec) -> None:
    alone, together = (BoundOptimizer(spec, new_weights(), as_vector=as_vector) for as_vector in (False, True))
    for bound in (alone, together):
        train(bound, 5)
    assert_close(values_of(together.weights), values_of(alone.weights))
    assert_close(together.state(), alone.state())
    assert [value.shape for value in alone.state()] == [tuple(v.shape) for v in variables_of(alone.optimizer)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.label)
@pytest.mark.parametrize("saved_as_vector", [True, False])
def test_state_is_restored_in_either_way(spec: OptimizerSpec, saved_as_vector: bool) -> None:
    saved = BoundOptimizer(spec, new_weights(), as_vector=saved_as_vector)
    train(saved, 3)
    restored = BoundOptimizer(spec, new_weights(), as_vector=not saved_as_vector)
    restored.set_state(saved.state())
    for weight, value in zip(restored.weights, values_of(saved.weights), strict=True):
        weight.assign(value)
    assert_close(restored.state(), saved.state())
    for bound in (saved, restored):
        train(bound, 3, seed=1)
    assert_close(values_of(restored.weights), values_of(saved.weights))
    assert_close(restored.state(), saved.state())


@pytest.mark.parametrize("as_vector", [True, False])
def test_reset_gives_the_state_of_a_new_optimizer(as_vector: bool) -> None:
    spec = OptimizerSpec(name="adagrad", arguments={"initial_accumulator_value": 0.2})
    bound = BoundOptimizer(spec, new_weights(), as_vector=as_vector)
    train(bound, 2)
    bound.reset(spec, new_weights())
    assert_close(bound.state(), BoundOptimizer(spec, new_weights(), as_vector=False).state())


def n_slots(spec: OptimizerSpec, weights: list[Any]) -> int:
    bound = BoundOptimizer(spec, weights)
    return sum(variable.shape.rank > 0 for variable in variables_of(bound.optimizer))


def test_weights_are_one_vector_only_where_steps_are_the_same() -> None:
    adam = OptimizerSpec()
    constrained = [keras.Variable(np.ones(3), dtype="float32"), keras.Variable(np.ones(3), dtype="float32")]
    constrained[0].constraint = keras.constraints.NonNeg()
    half = [keras.Variable(np.ones(3), dtype="float16"), keras.Variable(np.ones(3), dtype="float32")]
    assert n_slots(adam, new_weights()) == 2
    assert n_slots(OptimizerSpec(arguments={"clipnorm": 1.0}), new_weights()) == 8
    assert n_slots(OptimizerSpec(name="lamb"), new_weights()) == 8
    assert n_slots(adam, constrained) == n_slots(adam, half) == 4
