"""A uniform sample of all steps that an agent has made, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Reservoir:
    """A uniform sample of all rows that were added (Vitter 1985, "Random sampling with a reservoir", algorithm R).

    Args:
        capacity: Largest number of rows, >= 1.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_added = 0
        self._columns: dict[str, Array] = {}

    def __len__(self) -> int:
        """Return the number of rows."""
        return min(self.n_added, self.capacity)

    def add(self, columns: Mapping[str, Array], rng: np.random.Generator) -> None:
        """Add rows: columns [R, ...] by name, the same names in each call."""
        if not self._columns:
            self._columns = {n: np.zeros((self.capacity, *own.shape[1:]), own.dtype) for n, own in columns.items()}
        n_rows = len(next(iter(columns.values())))
        numbers = self.n_added + np.arange(n_rows)
        places = np.where(numbers < self.capacity, numbers, rng.integers(0, numbers + 1))
        kept = places < self.capacity
        for name, column in columns.items():
            self._columns[name][places[kept]] = column[kept]  # of several rows for one place, the last one stays
        self.n_added += n_rows

    def draw(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draw rows with replacement: columns [n, ...] by name. There must be some."""
        rows = rng.integers(0, len(self), n)
        return {name: column[rows] for name, column in self._columns.items()}

    def get_state(self) -> dict[str, Any]:
        """Return the rows, and how many were added."""
        rows = {name: column[: len(self)].copy() for name, column in self._columns.items()}
        return {"n_added": self.n_added, "rows": rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`. Of a larger capacity it keeps as many rows as there is room for.

        Rows of a smaller capacity count as all that were added, since the others are not there.
        """
        self._columns, n_rows = {}, 0
        for name, column in state["rows"].items():
            n_rows = min(len(column), self.capacity)
            self._columns[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            self._columns[name][:n_rows] = column[:n_rows]
        self.n_added = state["n_added"] if n_rows == min(state["n_added"], self.capacity) else n_rows
