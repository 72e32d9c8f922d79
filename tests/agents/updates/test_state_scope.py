"""Updates as functions of a state: layouts by hand, branches and loops beside TensorFlow's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agents.backend.tensorflow import keras, tf
from agents.updates.state_layout import StateLayout
from agents.updates.state_scope import NotFunctionalError, StateScope, assign_flat, branch, read_flat, repeat


def variable(*shape: int, dtype: str = "float32") -> Any:
    return keras.Variable(np.zeros(shape), dtype=dtype)


@pytest.fixture
def big_and_small() -> tuple[Any, ...]:
    return variable(20, 10), variable(100), variable(300), variable(), variable(dtype="int64"), variable(2)


def test_groups_have_vectors_and_the_rest_is_grouped_by_dtype(big_and_small: tuple[Any, ...]) -> None:
    matrix, vector, alone, number, count, pair = big_and_small
    layout = StateLayout(big_and_small, [[vector, matrix], [number, pair]])
    assert [[id(each) for each in own] for own in layout.vectors] == [
        [id(vector), id(matrix)],
        [id(alone)],
        [id(number), id(pair)],
        [id(count)],
    ]
    assert layout.shapes == [(300, "float32"), (300, "float32"), (3, "float32"), (1, "int64")]
    assert layout.place(matrix) == (0, 100, 300)
    assert layout.vector_with([vector, matrix]) == 0
    assert layout.vector_with([matrix, vector]) is None
    assert layout.vectors_of([pair, matrix, variable()]) == [0, 2]


def test_groups_of_several_dtypes_are_no_vector() -> None:
    mixed = [variable(300), variable(300, dtype="float16")]
    assert StateLayout(mixed, [mixed]).shapes == [(300, "float32"), (300, "float16")]


def test_arrays_of_members_there_and_back(big_and_small: tuple[Any, ...]) -> None:
    layout = StateLayout(big_and_small, [[big_and_small[1], big_and_small[0]]])
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(3, *each.shape)).astype(each.dtype) for each in big_and_small]
    joined = layout.join(values)
    assert [each.shape for each in joined] == [(3, size) for size, _ in layout.shapes]
    for own, again in zip(values, layout.values_of(dict(enumerate(joined)), layout.variables), strict=True):
        np.testing.assert_array_equal(own, again)


def run(layout: StateLayout, vectors: list[Any], function: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Trace a function of the state; return its result and the vectors after it."""

    @tf.function(autograph=False)
    def traced(*vectors: Any) -> Any:
        with StateScope(layout, vectors) as scope:
            return function(), scope.vectors()

    result, after = traced(*map(tf.constant, vectors))
    return None if result is None else result.numpy(), [each.numpy() for each in after]


def test_assignments_replace_values_and_leave_variables_alone() -> None:
    one, other = variable(300), variable(300)
    layout = StateLayout([one, other], [[one, other]])

    def double() -> Any:
        one.assign_add(other)
        return tf.reduce_sum(one.value)

    total, [after] = run(layout, [np.arange(600, dtype=np.float32)], double)
    np.testing.assert_array_equal(after[:300], np.arange(300) + np.arange(300, 600))
    np.testing.assert_array_equal(after[300:], np.arange(300, 600))
    assert total == after[:300].sum()
    assert not one.numpy().any()


def test_a_vector_that_nothing_changes_stays_the_same_tensor() -> None:
    one, other = variable(300), variable(300)
    layout = StateLayout([one, other])
    with tf.Graph().as_default():
        vectors = [tf.zeros([300]), tf.zeros([300])]
        with StateScope(layout, vectors) as scope:
            other.assign(one + 1.0)
            after = scope.vectors()
    assert after[0] is vectors[0]
    assert after[1] is not vectors[1]


def test_flat_reads_and_assignments_use_whole_vectors() -> None:
    one, other = variable(300), variable(20, 15)
    layout = StateLayout([one, other], [[one, other]])
    with tf.Graph().as_default():
        vector = tf.zeros([600])
        with StateScope(layout, [vector]) as scope:
            assert read_flat([one, other]) is vector
            new = tf.ones([600])
            assign_flat([one, other], new)
            assert scope.vectors() == [new]
            assert other.value.shape == (20, 15)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_return_what_they_change(taken: bool) -> None:
    one, other = variable(300), variable(300)
    layout = StateLayout([one, other])

    def step() -> Any:
        def change() -> Any:
            one.assign(one + 2.0)
            return tf.constant(1.0)

        result = branch(tf.constant(taken), change, lambda: tf.constant(0.0), [one])
        other.assign(one * 10.0)
        return result

    zeros = np.zeros(300, np.float32)
    result, [first, second] = run(layout, [zeros, zeros], step)
    assert (result, first[0], second[0]) == ((1.0, 2.0, 20.0) if taken else (0.0, 0.0, 0.0))


def test_branches_that_change_another_variable_are_refused() -> None:
    one, other = variable(300), variable(300)
    layout = StateLayout([one, other])
    zeros = np.zeros(300, np.float32)

    def step() -> Any:
        return branch(tf.constant(True), lambda: other.assign(one + 1.0), lambda: other.value, [one])

    with pytest.raises(NotFunctionalError):
        run(layout, [zeros, zeros], step)


def test_assignments_in_branches_of_tensorflow_are_refused() -> None:
    one = variable(300)
    with pytest.raises(NotFunctionalError):
        run(
            StateLayout([one]),
            [np.zeros(300, np.float32)],
            lambda: tf.cond(tf.constant(True), lambda: one.assign(one + 1.0), lambda: tf.zeros(300)),
        )


def test_loops_carry_the_state() -> None:
    one, other = variable(300), variable(300)
    layout = StateLayout([one, other])

    def step(k: Any) -> Any:
        one.assign(one + tf.cast(k, tf.float32))
        return one.value[:1]

    results, [first, second] = run(
        layout, [np.zeros(300, np.float32), np.ones(300, np.float32)], lambda: repeat(4, step)
    )
    assert results.ravel().tolist() == [0.0, 1.0, 3.0, 6.0]
    assert first[0] == 6.0
    assert second.tolist() == [1.0] * 300


def test_outside_of_a_scope_variables_are_assigned() -> None:
    one = variable(2)

    @tf.function(autograph=False)
    def train() -> Any:
        branch(tf.constant(True), lambda: one.assign(one + 1.0), lambda: one.value, [one])
        assign_flat([one], read_flat([one]) * 2.0)
        return repeat(3, lambda k: one.assign(one + 1.0)[:1])

    assert train().numpy().ravel().tolist() == [3.0, 4.0, 5.0]
    assert one.numpy().tolist() == [5.0, 5.0]
