"""Sequences of consecutive steps, for networks with memory."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_sequences(columns: dict[str, Array], memories: Array, ended: Array, length: int) -> dict[str, Array]:
    """Return the columns of a rollout split into sequences: [T, N, ...] as [T / L, N, L, ...].

    Args:
        columns: The columns.
        memories: [T, N, M] memories with which the observations were seen.
        ended: [T, N] whether an episode ended with a step.
        length: L; it divides T.

    Returns:
        The columns, and beside them ``memory`` [T / L, N, M] before the first step of each sequence and ``begins``
        [T / L, N, L], whether an episode begins with a later step.
    """
    begins = np.zeros(ended.shape, bool)
    begins[1:] = ended[:-1]
    begins[::length] = False  # the memory of the first step is zero where an episode begins
    split = {
        name: np.moveaxis(each.reshape(-1, length, *each.shape[1:]), 1, 2).copy()
        for name, each in {**columns, "begins": begins}.items()
    }
    return split | {"memory": memories[::length].copy()}
