"""Packing of many small columns into one matrix, so that a minibatch enters TensorFlow as one tensor.

Converting a NumPy array to a tensor costs about 25 µs however small it is, and an update has six to eight columns.
Numbers are packed as 32-bit floats (exact for integers up to 2**24, so for all actions and lengths) and cast back to
their own type when they are unpacked. Images remain separate columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_SEEN = {"b": "bool", "i": "int32", "u": "int32"}
"""Kind of an array's dtype -> dtype in the loss; float32 for all others."""


class Column(NamedTuple):
    """One packed column."""

    name: str
    shape: tuple[int, ...]  # of one row
    dtype: str  # dtype in the agent's loss: float32, int32 or bool
    size: int  # numbers per row


class Layout(NamedTuple):
    """The layout of a packed matrix; equal layouts can share one compiled function."""

    packed: tuple[Column, ...]
    images: tuple[str, ...]
    contiguous: bool  # minibatches are consecutive rows; no indices are needed


def layout_of(data: Mapping[str, Array], contiguous: bool) -> Layout:
    """Return the layout of data, by names, shapes and dtypes."""
    packed, images = [], []
    for name, values in data.items():
        if values.ndim > 2 and values.dtype == np.uint8:
            images.append(name)
            continue
        shape = values.shape[1:]
        packed.append(Column(name, shape, _SEEN.get(values.dtype.kind, "float32"), math.prod(shape)))
    return Layout(tuple(packed), tuple(images), contiguous)


def pack(data: Mapping[str, Array], layout: Layout) -> Array:
    """Pack all packable columns into one float32 matrix [M, W]."""
    rows = len(next(iter(data.values())))
    matrix = np.empty((rows, sum(column.size for column in layout.packed)), np.float32)
    start = 0
    for column in layout.packed:
        matrix[:, start : start + column.size] = data[column.name].reshape(rows, column.size)
        start += column.size
    return matrix


def unpack(matrix: Any, layout: Layout) -> dict[str, Any]:
    """Return tensors [B, ...] by name, from a packed tensor [B, W]."""
    from agents.backend.tensorflow import tf

    columns, start = {}, 0
    for column in layout.packed:
        values = tf.reshape(matrix[:, start : start + column.size], [-1, *column.shape])
        columns[column.name] = tf.cast(values, column.dtype)
        start += column.size
    return columns
