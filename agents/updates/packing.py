"""Many small columns as one matrix, so that a minibatch enters TensorFlow as one tensor.

Turning a NumPy array into a tensor costs some 25 µs however small it is, and an update has six to eight columns.
Numbers travel as 32-bit floats (exact for integers up to 2**24, so for every action and length there is) and get
their own type back on the other side. Images stay columns of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_SEEN = {"b": "bool", "i": "int32", "u": "int32"}
"""Kind of an array's type -> what the loss sees; of others 32-bit floats."""


class Column(NamedTuple):
    """One packed column."""

    name: str
    shape: tuple[int, ...]  # of one row
    dtype: str  # what the agent's loss sees: float32, int32 or bool
    size: int  # numbers a row


class Layout(NamedTuple):
    """How a matrix was packed; equal layouts can share one compiled function."""

    packed: tuple[Column, ...]
    images: tuple[str, ...]
    contiguous: bool  # minibatches are consecutive rows; no indices are needed


def layout_of(data: Mapping[str, Array], contiguous: bool) -> Layout:
    """The layout of data, by names, shapes and types."""
    packed, images = [], []
    for name, values in data.items():
        if values.ndim > 2 and values.dtype == np.uint8:
            images.append(name)
            continue
        shape = values.shape[1:]
        packed.append(Column(name, shape, _SEEN.get(values.dtype.kind, "float32"), math.prod(shape)))
    return Layout(tuple(packed), tuple(images), contiguous)


def pack(data: Mapping[str, Array], layout: Layout) -> Array:
    """[M, W] float32 of all packed columns."""
    rows = len(next(iter(data.values())))
    matrix = np.empty((rows, sum(column.size for column in layout.packed)), np.float32)
    start = 0
    for column in layout.packed:
        matrix[:, start : start + column.size] = data[column.name].reshape(rows, column.size)
        start += column.size
    return matrix


def unpack(matrix: Any, layout: Layout) -> dict[str, Any]:
    """Tensors [B, ...] by name, from a tensor [B, W]."""
    from agents.backend.tensorflow import tf

    columns, start = {}, 0
    for column in layout.packed:
        values = tf.reshape(matrix[:, start : start + column.size], [-1, *column.shape])
        columns[column.name] = tf.cast(values, column.dtype)
        start += column.size
    return columns
