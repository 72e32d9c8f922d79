"""Uniform experience replay (Lin 1992; Mnih et al. 2015), with n-step targets computed when sampling."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from agents.buffers.buffer import Array, Batches, Buffer, Transition, in_order
from agents.buffers.n_step import n_step_returns
from agents.buffers.observations import Observations, are_images
from agents.errors import ConfigurationError

_SEEN = ("observations", "next_observations")


class UniformReplay(Buffer):
    """Replay buffer of the newest transitions, sampled uniformly with replacement.

    `sample` returns the columns `observations`, `actions`, `rewards` (n-step sums), `lengths` (steps in each sum),
    `next_observations` and `terminated`, each [M, ...] for M = `batch_size` * `gradient_steps`.

    Args:
        buffer_size: Capacity in transitions, over all environments; at least `n_envs` * (`n_step` + 1).
        batch_size: Rows per minibatch, >= 1.
        learning_starts: Environment steps (over all environments) before the first update. Defaults to 0.
        train_freq: Steps of the environments (all N together count as one) between updates, >= 1. Defaults to 1.
        gradient_steps: Minibatches per update, >= 1. Defaults to 1.
        n_envs: Number of environments that are stepped together, >= 1.
        rng: Generator for samples.
        n_step: Number of steps until the bootstrap, >= 1. Defaults to 1.
        gamma: Discount of the rewards within those steps, 0 to 1. Defaults to 0.99.

    Raises:
        ConfigurationError: `buffer_size` is too small.
    """

    member_axis = 0
    off_policy = True

    def __init__(
        self,
        *,
        buffer_size: int,
        batch_size: int,
        n_envs: int,
        rng: np.random.Generator,
        learning_starts: int = 0,
        train_freq: int = 1,
        gradient_steps: int = 1,
        n_step: int = 1,
        gamma: float = 0.99,
    ) -> None:
        self.capacity = buffer_size // n_envs
        if self.capacity <= n_step:
            raise ConfigurationError(
                f"buffer_size must be at least n_envs * (n_step + 1) = {n_envs * (n_step + 1)}, got {buffer_size}."
            )
        self.batch_size = batch_size
        self.learning_starts = learning_starts
        self.train_freq = train_freq
        self.gradient_steps = gradient_steps
        self.n_envs = n_envs
        self.n_step = n_step
        self.gammas = np.array([gamma], np.float64)  # [P]
        self._rngs = [rng]  # one per member
        self._joined = False
        self._arrays: dict[str, Array] = {}
        self._images: Observations | None = None  # replaces the arrays of observations and successors
        self._ended = np.zeros((self.capacity, n_envs), bool)
        self._added = 0  # time slots written in total
        self._since_update = 0

    def __len__(self) -> int:
        """Return the number of stored transitions of each member."""
        return min(self._added, self.capacity) * self.n_envs

    def add(self, transition: Transition) -> None:
        columns = transition._asdict()
        if not self._arrays:
            if are_images(transition.observations):
                self._images = Observations(self.capacity, transition.observations)
            self._arrays = {
                name: np.zeros((self.capacity, *np.shape(values)), np.asarray(values).dtype)
                for name, values in columns.items()
                if self._images is None or name not in _SEEN
            }
        slot = self._added % self.capacity
        if self._images is not None:
            self._images.add(slot, transition.observations, transition.next_observations)
        for name, stored in self._arrays.items():
            stored[slot] = columns[name]
        self._ended[slot] = transition.terminated | transition.truncated
        self._added += 1
        self._since_update += 1

    @property
    def ready(self) -> bool:
        return (
            self._since_update >= self.train_freq
            and self._added * self.n_envs > self.learning_starts
            and self._added >= self.n_step
        )

    @property
    def steps_until_ready(self) -> int:
        first = self.learning_starts // self.n_envs + 1
        return max(1, self.train_freq - self._since_update, first - self._added, self.n_step - self._added)

    @property
    def rows_per_step(self) -> float:
        return self.batch_size * self.gradient_steps / (self.train_freq * self.n_envs)

    def sample(self) -> dict[str, Array]:
        self._since_update = 0
        return self.draw(self.batch_size * self.gradient_steps)

    def draw(self, n: int) -> dict[str, Array]:
        """Draw `n` transitions of each member; `rewards` are n-step sums over `lengths` steps."""
        return self._transitions(*self._draw(n), n)

    def _transitions(self, slots: Array, environments: Array, n: int) -> dict[str, Array]:
        """Return the transitions that start at these positions, `n` of each member."""
        width = self._ended.shape[1]
        rows = slots * width + environments
        if self.n_step == 1:
            rewards, lengths, ends = self._rows("rewards", rows), np.ones(len(slots), np.int32), rows
        else:
            gamma = np.repeat(self.gammas, n)
            rewards, lengths, last = n_step_returns(
                self._arrays["rewards"], self._ended, slots, environments, n=self.n_step, gamma=gamma
            )
            ends = last * width + environments
        return {
            "observations": self._rows("observations", rows),
            "actions": self._rows("actions", rows),
            "rewards": rewards,
            "lengths": lengths,
            "next_observations": self._rows("next_observations", ends),
            "terminated": self._rows("terminated", ends),
        }

    def _rows(self, name: str, rows: Array) -> Array:
        """Return stored values at flat positions, slot * width + environment: `take` is faster than two indices."""
        if self._images is not None and name in _SEEN:
            return self._images.observations(rows) if name == "observations" else self._images.successors(rows)
        stored = self._arrays[name]
        return stored.reshape(-1, *stored.shape[2:]).take(rows, axis=0)

    def _draw(self, n: int) -> tuple[Array, Array]:
        """Draw time slots and environments of `n` transitions of each member, [P * n] each, member after member."""
        # The newest n_step - 1 slots do not have all n steps yet.
        n_slots = min(self._added, self.capacity) - self.n_step + 1
        drawn = [self._draw_one(rng, n_slots, n) for rng in self._rngs]
        oldest = max(0, self._added - self.capacity)
        slots = (oldest + np.concatenate([age for age, _ in drawn])) % self.capacity
        return slots, np.concatenate([i * self.n_envs + within for i, (_, within) in enumerate(drawn)])

    def _draw_one(self, rng: np.random.Generator, n_slots: int, n: int) -> tuple[Array, Array]:
        """Draw ages of time slots and environments for one member, [n] each."""
        ages = rng.integers(0, n_slots, n)
        return ages, rng.integers(0, self.n_envs, n) if self.n_envs > 1 else np.zeros(n, np.int64)

    def batches(self, data: dict[str, Array]) -> Batches:
        n_members = len(self._rngs)
        n_steps = len(data["rewards"]) // (n_members * self.batch_size)
        if not self._joined:
            return Batches(data, in_order(n_steps, self.batch_size), contiguous=True)
        split = {name: values.reshape(n_members, -1, *values.shape[1:]) for name, values in data.items()}
        return Batches(split, in_order(n_steps, self.batch_size, (n_members,)), contiguous=True)

    @classmethod
    def of_members(cls, buffers: Sequence[Self]) -> Self:
        """Return one buffer for a population, from new ones that differ only in generator and discount."""
        joined = copy.copy(buffers[0])
        joined._arrays, joined._images, joined._joined = {}, None, True
        joined._ended = np.zeros((joined.capacity, joined.n_envs * len(buffers)), bool)
        joined._rngs = [buffer._rngs[0] for buffer in buffers]
        joined.gammas = np.concatenate([buffer.gammas for buffer in buffers])
        return joined

    def bytes_when_full(self, transition: Transition) -> int:
        twice = transition.next_observations.nbytes if are_images(transition.observations) else 0
        return self.capacity * (super().bytes_when_full(transition) - twice + self.n_envs)

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        if self._added:
            slot, where = (self._added - 1) % self.capacity, slice(None) if environments is None else list(environments)
            self._arrays["truncated"][slot, where] |= ~self._arrays["terminated"][slot, where]
            self._ended[slot, where] = True

    def select(self, positions: Sequence[int]) -> None:
        columns = self._columns(positions)
        # `take` returns arrays in C order, whose rows can be taken without copying the array; indexing would not.
        for name in self._arrays:
            self._arrays[name] = self._arrays[name].take(columns, axis=1)
        if self._images is not None:
            self._images.select(columns)
        self._ended = self._ended.take(columns, axis=1)
        self._rngs = [self._rngs[i] for i in positions]
        self.gammas = self.gammas[list(positions)]

    def _columns(self, positions: Sequence[int]) -> Array:
        """Return the environment indices of these members, [P * N]."""
        columns: Array = (np.asarray(positions)[:, None] * self.n_envs + np.arange(self.n_envs)).ravel()
        return columns

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        if name == "gamma":
            self.gammas[slice(None) if position is None else position] = value

    def get_state(self) -> dict[str, Any]:
        stored = min(self._added, self.capacity)
        return {
            "arrays": {name: values[:stored].copy() for name, values in self._arrays.items()},
            "images": None if self._images is None else self._images.get_state(stored),
            "added": self._added,
            "since_update": self._since_update,
            "gammas": self.gammas.copy(),
            "rngs": [rng.bit_generator.state for rng in self._rngs],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        n_columns = self.n_envs * len(self._rngs)
        shapes = {values.shape[:2] for values in state["arrays"].values()}
        if not shapes <= {(min(state["added"], self.capacity), n_columns)}:
            raise ConfigurationError(
                f"A replay of {self.capacity} steps of {n_columns} environments cannot be restored from the state of "
                f"one of another size."
            )
        arrays = dict(state["arrays"])
        self._arrays, self._images = {}, self._images_of(arrays, state)
        self._ended[:] = False
        for name, values in arrays.items():
            self._arrays[name] = np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            self._arrays[name][: len(values)] = values
        if self._arrays:
            self._ended = self._arrays["terminated"] | self._arrays["truncated"]
        self._added = state["added"]
        self._since_update = state["since_update"]
        self.gammas = state["gammas"].copy()
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state

    def _images_of(self, arrays: dict[str, Array], state: dict[str, Any]) -> Observations | None:
        """Return the images of a state; moved out of its arrays for older states, which store them twice."""
        if state.get("images") is not None:
            return Observations.of_state(self.capacity, state["images"])
        if not arrays or not are_images(arrays["observations"][0]):
            return None
        both = [arrays.pop(name) for name in _SEEN]
        oldest = max(0, state["added"] - self.capacity)
        slots = [time % self.capacity for time in range(oldest, state["added"])]
        return Observations.of_both(self.capacity, slots, *both)
