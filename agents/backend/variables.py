"""Values of Keras variables: taken out, put back, told apart."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def values_of(variables: Sequence[Any]) -> list[Array]:
    """Returns copies of the values of variables."""
    return [np.array(variable.numpy()) for variable in variables]


def assign_all(variables: Sequence[Any], values: Sequence[Array]) -> None:
    """Gives variables these values."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


@contextmanager
def one_name() -> Generator[None]:
    """Let TensorFlow know all variables that are made in the block by one name; Keras keeps its own names.

    TensorFlow keeps 36 KB in a process for every name that a variable ever had, and Keras numbers its networks and
    optimizers: an agent would leave 1 MB. With a strategy nothing is renamed, as other processes go by names.
    """
    from agents.backend.tensorflow import tf

    def create(next_creator: Any, **arguments: Any) -> Any:
        with tf.name_scope("agent/"):  # the slash ends the scopes around it: Keras's name of the layer
            return next_creator(**{**arguments, "name": "variable"})

    if tf.distribute.has_strategy():
        yield
    else:
        with tf.variable_creator_scope(create):
            yield


def digest_of(values: Sequence[Array]) -> int:
    """Returns a number that is the same for the same values."""
    digest = 0
    for each in values:
        digest = zlib.crc32(each.tobytes(), digest)
    return digest
