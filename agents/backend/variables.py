"""Values of Keras variables: read, assign, name and compare them."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def values_of(variables: Sequence[Any]) -> list[Array]:
    """Return copies of the values of variables."""
    return [np.array(variable.numpy()) for variable in variables]


def assign_all(variables: Sequence[Any], values: Sequence[Array]) -> None:
    """Assign values to variables."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


@contextmanager
def one_name() -> Generator[None]:
    """Give all variables created in the block the same name in TensorFlow; Keras keeps its own names.

    TensorFlow never frees the 36 KB that it allocates per variable name, and Keras numbers its networks and optimizers:
    every agent would leak 1 MB. Under a distribution strategy nothing is renamed, because processes match variables by
    name.
    """
    from agents.backend.tensorflow import tf

    def create(next_creator: Any, **arguments: Any) -> Any:
        with tf.name_scope("agent/"):  # the slash resets outer scopes, such as Keras's layer name
            return next_creator(**{**arguments, "name": "variable"})

    if tf.distribute.has_strategy():
        yield
    else:
        with tf.variable_creator_scope(create):
            yield


def digest_of(values: Sequence[Array]) -> int:
    """Return a number that is equal for equal values."""
    digest = 0
    for each in values:
        digest = zlib.crc32(each.tobytes(), digest)
    return digest
