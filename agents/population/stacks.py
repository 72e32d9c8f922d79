"""The state of all members, variable by variable: the values of one variable for P members are one array [P, ...].

All state that training changes in a Keras agent is in variables: weights, optimizer slots, learning rates, counters,
target networks, mutable hyperparameters, the seeds of random layers. So a member is loaded, stored, moved or dropped by
its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import tf

Array = np.ndarray[Any, Any]
Values = list[Array]  # one array per variable: [...] of one member, [P, ...] of several


class Stacks:
    """The values of an agent's variables for several members.

    Args:
        variables: The agent's variables, each once.
        capacity: Largest number of members.
    """

    def __init__(self, variables: Sequence[Any], capacity: int) -> None:
        self.variables = list(variables)
        self.capacity = capacity
        self.stacks = [
            tf.Variable(tf.zeros([capacity, *variable.shape], variable.dtype), name="members")
            for variable in self.variables
        ]
        self._index = {id(variable): index for index, variable in enumerate(self.variables)}

    def index(self, variable: Any) -> int:
        """Return the index of a variable."""
        return self._index[id(variable)]

    def set(self, values: Values) -> None:
        """Set the values of the first members, [P, ...] each; P may be anything up to the capacity."""
        for stack, array in zip(self.stacks, values, strict=True):
            stack.assign(padded(array, self.capacity))

    def get(self, n: int) -> Values:
        """Return copies of the values of the first `n` members, [n, ...] each."""
        return [stack.numpy()[:n] for stack in self.stacks]


def padded(values: Array, capacity: int) -> Array:
    """Pad [n, ...] to [capacity, ...]: compiled code has one shape and counts the present members."""
    if len(values) == capacity:
        return np.ascontiguousarray(values)
    result = np.zeros((capacity, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result
