"""Comparison of the changes of weights by trainings; the weights themselves agree trivially if they hardly changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

NOISE = 1e-5
"""Largest difference between trainings that differ only in the order of additions in single precision.

Most trainings are equal bit for bit; up to 2e-6 was measured. A discount of 0.5001 instead of 0.5 gives a larger
difference (`test_population.py`).
"""


def values_of(variables: Sequence[Any]) -> list[np.ndarray]:
    """Return copies of the values of variables."""
    return [np.array(variable.numpy()) for variable in variables]


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], initial: Sequence[np.ndarray]) -> float:
    """Return the largest difference of any variable between two movements from `initial`, relative to the movement."""
    shares = []
    for our, their, start in zip(ours, theirs, initial, strict=True):
        moved = np.linalg.norm(np.asarray(their, np.float64) - start)
        apart = np.linalg.norm(np.asarray(our, np.float64) - their)
        shares.append(apart / moved if moved else float(np.inf if apart else 0.0))
    return max(shares)


def assert_same_movement(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], initial: Sequence[np.ndarray], noise: float = NOISE
) -> None:
    """Assert that weights have changed, and by the same amount up to `noise`."""
    assert any(np.any(their != start) for their, start in zip(theirs, initial, strict=True)), "no weight has changed"
    found = difference(ours, theirs, initial)
    assert found <= noise, f"the movements differ by {found:.1e} of their length"
