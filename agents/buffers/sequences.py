"""Sequences of consecutive steps, for networks with memory: of rollouts, and drawn from a replay buffer.

The replay is that of Hausknecht and Stone 2015, arXiv 1507.06527.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.buffers.buffer import Array
from agents.buffers.uniform import UniformReplay
from agents.errors import ConfigurationError


class SequenceReplay(UniformReplay):
    """Replay buffer whose rows are sequences, drawn uniformly with replacement; they may begin anywhere in an episode.

    Args:
        length: Steps of a sequence, T >= 1.
        burn_in: First steps of a sequence that only bring the memory up to date, < T. Defaults to 0.
        batch_size: Steps per minibatch after the burn-in; a minibatch has as few sequences as have that many.
        arguments: As of `UniformReplay`, without `n_step`.
    """

    def __init__(self, *, length: int, batch_size: int, burn_in: int = 0, **arguments: Any) -> None:
        super().__init__(batch_size=-(-batch_size // (length - burn_in)), n_step=1, **arguments)
        if self.capacity < length:
            raise ConfigurationError(
                f"buffer_size must be at least n_envs * {length} = {self.n_envs * length} for sequences of {length} "
                f"steps, got {self.capacity * self.n_envs}."
            )
        self.length = length

    @property
    def ready(self) -> bool:
        return super().ready and self._added >= self.length

    @property
    def steps_until_ready(self) -> int:
        return max(super().steps_until_ready, self.length - self._added)

    @property
    def rows_per_step(self) -> float:
        return super().rows_per_step * self.length

    def draw(self, n: int) -> dict[str, Array]:
        """Draw `n` sequences of each member: columns [P * n, T, ...], and ``begins``: episodes that begin later."""
        drawn = [self._draw_one(rng, min(self._added, self.capacity) - self.length + 1, n) for rng in self._rngs]
        oldest = max(0, self._added - self.capacity)
        firsts = oldest + np.concatenate([ages for ages, _ in drawn])
        environments = np.concatenate([i * self.n_envs + within for i, (_, within) in enumerate(drawn)])
        slots = (firsts[:, None] + np.arange(self.length)) % self.capacity  # [P * n, T]
        rows = slots * self._ended.shape[1] + environments[:, None]
        begins = np.zeros(rows.shape, bool)
        begins[:, 1:] = self._ended.reshape(-1).take(rows[:, :-1])
        names = ("observations", "actions", "rewards", "next_observations", "terminated")
        return {**{name: self._rows(name, rows) for name in names}, "begins": begins}


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
