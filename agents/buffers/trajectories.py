"""The rollout buffer of ACER, which also replays trajectories of earlier rollouts (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from agents.buffers.buffer import Array, Batches, Transition, in_order
from agents.buffers.rollout import RolloutBuffer
from agents.errors import ConfigurationError


class TrajectoryReplay(RolloutBuffer):
    """Buffer that returns every rollout once, followed by minibatches of trajectories of recent rollouts.

    A minibatch has as many rows as a rollout: N trajectories of `n_steps` rows each, one trajectory after the other.
    Rollouts are stored as returned by the agent's `preprocess_batch`, for example with the probabilities of the
    behaviour policy. The rollout itself must therefore come from the agent's newest weights; replayed ones need not.

    The paper draws the number of replays from a Poisson distribution whose mean is `replay_ratio`. Here the number
    is constant: all updates have one shape and are compiled once, and members of a population stay synchronous.

    Args:
        n_steps: Steps of each environment per rollout, >= 1.
        buffer_size: Capacity in transitions over all environments, rounded down to whole rollouts.
        replay_ratio: Number of replayed minibatches after each rollout, >= 0.
        n_envs: Number of environments that are stepped together.
        rng: Generator for the choice of trajectories.
        learning_starts: Environment steps (over all environments) before the first replay.
        n_actions: Number of probabilities that `preprocess_batch` adds to each row, for `bytes_when_full` only.

    Raises:
        ConfigurationError: `buffer_size` is smaller than a rollout.
    """

    def __init__(
        self,
        *,
        n_steps: int,
        buffer_size: int,
        replay_ratio: int,
        n_envs: int,
        rng: np.random.Generator,
        learning_starts: int = 0,
        n_actions: int = 0,
    ) -> None:
        super().__init__(n_steps=n_steps, rng=rng)
        self.capacity = buffer_size // (n_steps * n_envs)
        if self.capacity < 1:
            raise ConfigurationError(
                f"buffer_size must be at least n_envs * n_steps = {n_envs * n_steps}, got {buffer_size}."
            )
        self.replay_ratio = replay_ratio
        self.n_envs = n_envs
        self.learning_starts = learning_starts
        self.n_actions = n_actions
        self._ring: dict[str, Array] = {}  # each [capacity, T, P * N, ...]
        self._stored = 0  # rollouts stored in total

    def __len__(self) -> int:
        """Return the number of stored rollouts."""
        return min(self._stored, self.capacity)

    @property
    def rows_per_step(self) -> float:
        return 1.0 + self.replay_ratio

    def sample(self) -> dict[str, Array]:
        later = self._steps[self.n_steps :]  # a trajectory has `n_steps` rows, even if more are stored
        self._steps = self._steps[: self.n_steps]
        data = super().sample()
        self._steps = later
        return data

    def batches(self, data: dict[str, Array]) -> Batches:
        n_members = len(self._rngs)
        parts = {name: _trajectories(values, n_members)[:, None] for name, values in data.items()}  # [P, 1, N, T, ...]
        if self.replay_ratio:
            self._store(data)
        if self.replay_ratio and self._stored * self.n_steps * self.n_envs > self.learning_starts:
            rollouts, environments = self._draw()  # [P, K - 1, N] each
            for name, values in self._ring.items():
                parts[name] = np.concatenate([parts[name], values[rollouts, :, environments]], axis=1)
        n_minibatches = next(iter(parts.values())).shape[1]
        size = self.n_steps * self.n_envs
        rows = {name: values.reshape(n_members, -1, *values.shape[4:]) for name, values in parts.items()}
        if not self._joined:
            single = {name: values[0] for name, values in rows.items()}
            return Batches(single, in_order(n_minibatches, size), contiguous=True)
        return Batches(rows, in_order(n_minibatches, size, (n_members,)), contiguous=True)

    def _store(self, data: dict[str, Array]) -> None:
        if not self._ring:
            self._ring = {name: np.zeros((self.capacity, *v.shape), v.dtype) for name, v in data.items()}
        slot = self._stored % self.capacity
        for name, values in data.items():
            self._ring[name][slot] = values
        self._stored += 1

    def _draw(self) -> tuple[Array, Array]:
        """Draw rollouts and environments with each member's own generator."""
        shape = (self.replay_ratio, self.n_envs)
        drawn = [(rng.integers(0, len(self), shape), rng.integers(0, self.n_envs, shape)) for rng in self._rngs]
        rollouts = np.stack([rollouts for rollouts, _ in drawn])
        environments = np.stack([i * self.n_envs + environments for i, (_, environments) in enumerate(drawn)])
        return rollouts, environments

    @classmethod
    def of_members(cls, buffers: Sequence[Self]) -> Self:
        joined = super().of_members(buffers)
        joined._ring = {}
        return joined

    def bytes_when_full(self, transition: Transition) -> int:
        added = self.n_envs * self.n_actions * np.dtype(np.float32).itemsize
        a_step = sum(values.nbytes for values in transition) + added
        kept = self.capacity if self.replay_ratio else 0
        return super().bytes_when_full(transition) + (kept + 2 * (1 + self.replay_ratio)) * self.n_steps * a_step

    def select(self, positions: Sequence[int]) -> None:
        super().select(positions)
        columns = (np.asarray(positions)[:, None] * self.n_envs + np.arange(self.n_envs)).ravel()
        self._ring = {name: values.take(columns, axis=2) for name, values in self._ring.items()}

    def get_state(self) -> dict[str, Any]:
        ring = {name: values[: len(self)].copy() for name, values in self._ring.items()}
        return {**super().get_state(), "ring": ring, "stored": self._stored}

    def set_state(self, state: dict[str, Any]) -> None:
        expected = (min(state["stored"], self.capacity), self.n_steps, self.n_envs * len(self._rngs))
        if not {values.shape[:3] for values in state["ring"].values()} <= {expected}:
            raise ConfigurationError(
                f"A replay of {self.capacity} rollouts of {self.n_steps} steps of {expected[2]} environments cannot "
                f"be restored from the state of one of another size."
            )
        super().set_state(state)
        self._ring = {}
        for name, values in state["ring"].items():
            self._ring[name] = np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            self._ring[name][: len(values)] = values
        self._stored = state["stored"]


def _trajectories(values: Array, n_members: int) -> Array:
    """Map [T, P * N, ...] to [P, N, T, ...]."""
    n_steps, n_rows, *rest = values.shape
    return np.moveaxis(values, 0, 1).reshape(n_members, n_rows // n_members, n_steps, *rest)
