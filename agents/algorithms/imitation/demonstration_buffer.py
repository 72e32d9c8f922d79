"""The buffer of agents that learn from demonstrations alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agents.buffers.buffer import Array, Batches, Buffer, Transition, in_order


class DemonstrationBuffer(Buffer):
    """Buffer of a dataset: steps of the environments are counted and thrown away.

    Args:
        columns: The dataset, name -> [M, ...]; it is not copied.
        held_out: Rows [H, ...] of which as many are drawn, as columns with the prefix ``held_out_``. Defaults to None.
        n_steps: Steps of each environment between two updates, >= 1.
        n_envs: Number of environments that are stepped together, >= 1. Defaults to 1.
        gradient_steps: Minibatches of an update, >= 1.
        batch_size: Rows of a minibatch, >= 1, drawn uniformly with replacement.
        rng: Generator for the rows.

    Attributes:
        columns: The dataset.
    """

    member_axis = 0
    off_policy = True

    def __init__(
        self,
        columns: Mapping[str, Array],
        *,
        held_out: Mapping[str, Array] | None = None,
        n_steps: int,
        n_envs: int = 1,
        gradient_steps: int,
        batch_size: int,
        rng: np.random.Generator,
    ) -> None:
        self.columns = dict(columns)
        self._held_out = {f"held_out_{name}": values for name, values in (held_out or {}).items()}
        self._n_steps, self._n_envs, self._shape = n_steps, n_envs, (gradient_steps, batch_size)
        self._rng = rng
        self._count = 0

    def add(self, transition: Transition) -> None:
        self._count += 1

    @property
    def ready(self) -> bool:
        return self._count >= self._n_steps

    @property
    def steps_until_ready(self) -> int:
        return max(1, self._n_steps - self._count)

    @property
    def rows_per_step(self) -> float:
        return self._shape[0] * self._shape[1] / (self._n_steps * self._n_envs)

    def sample(self) -> dict[str, Array]:
        self._count = 0
        return self._drawn(self.columns) | self._drawn(self._held_out)

    def _drawn(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        if not columns:
            return {}
        n_rows = len(next(iter(columns.values())))
        rows = self._rng.integers(0, n_rows, self._shape[0] * self._shape[1])
        return {name: values[rows] for name, values in columns.items()}

    def batches(self, data: dict[str, Array]) -> Batches:
        return Batches(data, in_order(*self._shape), contiguous=True)

    def bytes_when_full(self, transition: Transition) -> int:
        return 0  # demonstrations are in memory before the training

    def get_state(self) -> dict[str, Any]:
        return {"count": self._count, "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self._count = state["count"]
        self._rng.bit_generator.state = state["rng"]
