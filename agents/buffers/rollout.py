"""The rollout buffer of on-policy agents: filled with steps, used for some epochs, then emptied."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from agents.buffers.buffer import Array, Batches, Buffer, Transition

_COPIES = 4
"""Copies of a rollout during an update: as collected, stacked, by member, and packed."""


class RolloutBuffer(Buffer):
    """Buffer of `n_steps` steps of all environments.

    `sample` returns the columns of `Transition`, each [T, N, ...] for T = `n_steps` steps of N environments.

    Args:
        n_steps: Steps of each environment per rollout, >= 1.
        n_epochs: Number of epochs over every rollout, >= 1. Defaults to 1.
        batch_size: Maximum number of rows of a minibatch, >= 1. Defaults to None: the whole rollout. An epoch has as
            few minibatches as that allows, all of the same size, and every row is in one of them. Where the rows cannot
            be split evenly, the last minibatch is filled up with rows of the first one, fewer than there are
            minibatches: 127 rows in minibatches of 64 make two of 64, with one row in both. (The order is redrawn each
            epoch.)
        rng: Generator for the order of rows.

    Raises:
        ValueError: A number is below 1.
    """

    member_axis = 1

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
        self._rngs = [rng]  # one per member
        self._joined = False
        self._steps: list[Transition] = []

    def add(self, transition: Transition) -> None:
        self._steps.append(Transition(*map(np.array, transition)))  # copies: an agent may reuse its arrays

    @property
    def ready(self) -> bool:
        return len(self._steps) >= self.n_steps

    @property
    def rows_per_step(self) -> float:
        return float(self.n_epochs)

    @property
    def steps_until_ready(self) -> int:
        return max(1, self.n_steps - len(self._steps))

    def sample(self) -> dict[str, Array]:
        fields = zip(Transition._fields, zip(*self._steps, strict=True), strict=True)
        data = {name: np.stack(values) for name, values in fields}  # each [T, N, ...]
        self._steps = []
        return data

    def batches(self, data: dict[str, Array]) -> Batches:
        n_members = len(self._rngs)
        rows = {name: _member_first(values, n_members) for name, values in data.items()}  # [P, T * N, ...]
        n_rows = next(iter(rows.values())).shape[1]
        indices = np.stack([self._orders(rng, n_rows) for rng in self._rngs])  # [P, K, B]
        if not self._joined:
            return Batches({name: values[0] for name, values in rows.items()}, indices[0])
        return Batches(rows, indices)

    def _orders(self, rng: np.random.Generator, n_rows: int) -> Array:
        n_minibatches = -(-n_rows // (self.batch_size or n_rows))
        size = -(-n_rows // n_minibatches)  # the same for all, as functions are compiled for one size
        # Fewer than `size` rows are repeated from the front, so that no minibatch contains a row twice.
        orders = [np.resize(rng.permutation(n_rows), (n_minibatches, size)) for _ in range(self.n_epochs)]
        return np.concatenate(orders).astype(np.int32)

    @classmethod
    def of_members(cls, buffers: Sequence[Self]) -> Self:
        """Return one buffer for the members of a population, from new ones that differ only in their generators."""
        joined = copy.copy(buffers[0])
        joined._steps, joined._joined = [], True
        joined._rngs = [buffer._rngs[0] for buffer in buffers]
        return joined

    def bytes_when_full(self, transition: Transition) -> int:
        return _COPIES * self.n_steps * super().bytes_when_full(transition)

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        if self._steps:
            truncated, where = self._steps[-1].truncated, slice(None) if environments is None else list(environments)
            truncated[where] |= ~self._steps[-1].terminated[where]

    def select(self, positions: Sequence[int]) -> None:
        n_members = len(self._rngs)
        self._rngs = [self._rngs[i] for i in positions]
        self._steps = [
            Transition(*(_member_rows(values, n_members, positions) for values in step)) for step in self._steps
        ]

    def get_state(self) -> dict[str, Any]:
        steps = [tuple(np.copy(values) for values in step) for step in self._steps]
        return {"steps": steps, "rngs": [rng.bit_generator.state for rng in self._rngs]}

    def set_state(self, state: dict[str, Any]) -> None:
        self._steps = [Transition(*(np.copy(values) for values in step)) for step in state["steps"]]
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state


RolloutMemory = RolloutBuffer
"""Deprecated alias, kept for one version."""


def _member_first(values: Array, n_members: int) -> Array:
    """Map [T, P * N, ...] to [P, T * N, ...]."""
    n_steps, n_rows, *rest = values.shape
    split = values.reshape(n_steps, n_members, n_rows // n_members, *rest)
    return np.moveaxis(split, 1, 0).reshape(n_members, -1, *rest)


def _member_rows(values: Array, n_members: int, positions: Sequence[int]) -> Array:
    """Return the rows of some members, [P * N, ...]."""
    rows = values.reshape(n_members, -1, *values.shape[1:])[list(positions)]
    return rows.reshape(-1, *values.shape[1:])
