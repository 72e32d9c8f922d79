"""Arrays in a block of shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from agents.collection.worker import Array, Shapes

_ALIGNED = 64


def size_of(shapes: Shapes) -> int:
    """Return the bytes of arrays of these shapes, one after another."""
    return max(1, sum(_aligned(shape, dtype) for shape, dtype in shapes.values()))


def arrays_in(memory: Any, shapes: Shapes) -> dict[str, Array]:
    """Return the arrays of these shapes in a block of memory."""
    arrays, offset = {}, 0
    for name, (shape, dtype) in shapes.items():
        arrays[name] = np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
        offset += _aligned(shape, dtype)
    return arrays


def _aligned(shape: tuple[int, ...], dtype: Any) -> int:
    size: int = math.prod(shape) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNED) * _ALIGNED


def own_columns(rows: Mapping[str, Array], slot: int, copies: range) -> dict[str, Array]:
    """Return a process's part of a slot, [T, n, ...]."""
    return {name: values[slot][:, copies.start : copies.stop] for name, values in rows.items()}
