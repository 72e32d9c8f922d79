"""The memory of on-policy learning: a rollout of fixed length, learned from for some epochs, then forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.replay.memory import Array, Batches, Memory, Transition


class RolloutMemory(Memory):
    """Holds `n_steps` steps of all environments.

    Args:
        n_steps: Steps of each environment a rollout, >= 1.
        n_epochs: Times that every transition is used, >= 1.
        batch_size: Rows a minibatch, or None for the whole rollout. Rows left over at the end of an epoch that
            do not fill a minibatch are left out of that epoch (the order is drawn anew each epoch).
        rng: Draws the order of minibatches.
    """

    def __init__(
        self, *, n_steps: int, rng: np.random.Generator, n_epochs: int = 1, batch_size: int | None = None
    ) -> None:
        if n_steps < 1 or n_epochs < 1 or (batch_size is not None and batch_size < 1):
            raise ValueError(
                f"n_steps, n_epochs and batch_size must be >= 1, got {n_steps}, {n_epochs} and {batch_size}."
            )
        self.n_steps = n_steps
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.rng = rng
        self._steps: list[Transition] = []

    def add(self, transition: Transition) -> None:
        self._steps.append(Transition(*map(np.array, transition)))  # copies: an agent may reuse its arrays

    @property
    def due(self) -> bool:
        return len(self._steps) >= self.n_steps

    def take(self) -> dict[str, Array]:
        fields = zip(Transition._fields, zip(*self._steps, strict=True), strict=True)
        data = {name: np.stack(values) for name, values in fields}  # each [T, N, ...]
        self._steps = []
        return data

    def batches(self, data: dict[str, Array]) -> Batches:
        rows = {name: values.reshape(-1, *values.shape[2:]) for name, values in data.items()}  # [T * N, ...]
        n_rows = len(next(iter(rows.values())))
        size = min(self.batch_size or n_rows, n_rows)
        used = n_rows - n_rows % size
        orders = [self.rng.permutation(n_rows)[:used].reshape(-1, size) for _ in range(self.n_epochs)]
        return Batches(rows, np.concatenate(orders).astype(np.int32))

    def get_state(self) -> dict[str, Any]:
        steps = [tuple(np.copy(values) for values in step) for step in self._steps]
        return {"steps": steps, "rng": self.rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self._steps = [Transition(*(np.copy(values) for values in step)) for step in state["steps"]]
        self.rng.bit_generator.state = state["rng"]
