"""The state of all members: the vectors of a layout, for P members, are arrays [P, S].

All state that training changes in a Keras agent is in variables: weights, optimizer slots, learning rates, counters,
target networks, mutable hyperparameters, the seeds of random layers. So a member is loaded, stored, moved or dropped by
its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import tf
from agents.updates.state_layout import StateLayout

Array = np.ndarray[Any, Any]
SEED_DTYPE = "uint32"
"""Dtype of the variables with which Keras seeds random layers."""

Values = list[Array]  # one array per variable: [...] of one member, [P, ...] of several


class Stacks:
    """The values of an agent's variables for several members.

    Args:
        layout: The agent's variables in vectors.
        capacity: Largest number of members.

    Attributes:
        stacks: A variable [capacity, S] for each vector.
    """

    def __init__(self, layout: StateLayout, capacity: int) -> None:
        self.layout = layout
        self.capacity = capacity
        self.stacks = [tf.Variable(tf.zeros([capacity, size], dtype), name="members") for size, dtype in layout.shapes]

    @property
    def variables(self) -> Sequence[Any]:
        """The agent's variables, each once."""
        return self.layout.variables

    def set(self, values: Values) -> None:
        """Set the values of the first members, [P, ...] each; P may be anything up to the capacity."""
        for stack, vectors in zip(self.stacks, self.layout.join(values), strict=True):
            stack.assign(padded(vectors, self.capacity))

    def get(self, n: int) -> Values:
        """Return copies of the values of the first `n` members, [n, ...] each."""
        vectors = {index: stack.numpy()[:n] for index, stack in enumerate(self.stacks)}
        return [values.copy() for values in self.layout.values_of(vectors, self.variables)]

    def value(self, variable: Any, position: Any) -> Any:
        """Return the value of a variable of the member at a position as a tensor, while tracing."""
        place = self.layout.place(variable)
        own = self.stacks[place.vector][position, place.begin : place.end]
        return tf.reshape(own, variable.shape)


def copy_position(variables: Sequence[Any], values: Values, source: int, target: int) -> None:
    """Copy the values of the member at `source` to `target`, in place, except for the seeds of random layers.

    Args:
        variables: The variables.
        values: The value of each, [P, ...].
        source: Position of the member that is copied.
        target: Position of the member that is replaced.
    """
    for variable, own in zip(variables, values, strict=True):
        if variable.dtype != SEED_DTYPE:
            own[target] = own[source]


def padded(values: Array, capacity: int) -> Array:
    """Pad [n, ...] to [capacity, ...]: compiled code has one shape and counts the present members."""
    if len(values) == capacity:
        return np.ascontiguousarray(values)
    result = np.zeros((capacity, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result
