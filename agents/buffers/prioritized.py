"""Prioritised experience replay (Schaul et al. 2015, arXiv 1511.05952), the proportional variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from agents.buffers.buffer import Array, Transition
from agents.buffers.sum_tree import SumTree
from agents.buffers.uniform import UniformReplay
from agents.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Priorities:
    """Settings of prioritised replay.

    Attributes:
        alpha: Exponent of priorities, in [0, 1]; 0 draws uniformly. Defaults to 0.6.
        beta: Initial exponent of importance weights, in [0, 1]. Defaults to 0.4.
        beta_steps: Environment steps over which beta increases linearly to 1, >= 1. Defaults to 100,000.
        eps: Added to every priority, so that every transition can be drawn, > 0. Defaults to 1e-6.
        initial: Priority of the first transitions, > 0; later ones start with the largest priority so far. Defaults to
            1.

    Raises:
        ConfigurationError: A value is out of range.
    """

    alpha: float = 0.6
    beta: float = 0.4
    beta_steps: int = 100_000
    eps: float = 1e-6
    initial: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 <= value <= 1.0:
                raise ConfigurationError(f"{name} must be in [0, 1], got {value!r}.")
        for name, value in (("beta_steps", self.beta_steps), ("eps", self.eps), ("initial", self.initial)):
            if not value > 0:
                raise ConfigurationError(f"{name} must be > 0, got {value!r}.")


class PrioritizedReplay(UniformReplay):
    """Replay buffer that draws transitions in proportion to their priorities.

    Transition i is drawn with probability p_i^alpha / sum p^alpha, where p_i is its newest priority (returned by the
    agent's loss) plus `eps`. The sum is split into equal parts, each of which gives one row of a minibatch (stratified
    sampling). The column `weights` corrects the bias: (N P(i))^-beta, divided by the largest weight of the minibatch.
    All minibatches of an update are drawn before its first gradient step.

    Args:
        priorities: Settings of the priorities. Defaults to None: those of `Priorities()`.
        **replay: See `UniformReplay`.
    """

    def __init__(self, priorities: Priorities | None = None, **replay: Any) -> None:
        super().__init__(**replay)
        how = priorities or Priorities()
        self.beta_steps = how.beta_steps
        # Numbers of each member, [P].
        self._numbers = {name: np.array([getattr(how, name)], np.float64) for name in ("alpha", "beta", "eps")}
        self._largest = np.array([how.initial], np.float64)
        self._tree = SumTree(self.capacity * self.n_envs)  # p^alpha by slot * n_envs + environment of the member
        self._drawn = np.zeros((1, 0), np.int64)  # [P, rows] leaves that still await new priorities

    @property
    def beta(self) -> Array:
        """Current exponent of importance weights, [P]."""
        done = min(1.0, self._added * self.n_envs / self.beta_steps)
        first = self._numbers["beta"]
        return first + (1.0 - first) * done

    def add(self, transition: Transition) -> None:
        super().add(transition)
        # The newest n_step - 1 slots do not have all n steps yet.
        if self.n_step > 1:
            self._set_slot(self._added - 1, np.zeros_like(self._largest))
        if self._added >= self.n_step:
            self._set_slot(self._added - self.n_step, self._largest ** self._numbers["alpha"])

    def _set_slot(self, time: int, values: Array) -> None:
        """Set the leaves of a time slot to one value [P] per member."""
        leaves = time % self.capacity * self.n_envs + np.arange(self.n_envs)
        shape = (len(values), self.n_envs)
        self._tree.set(np.broadcast_to(leaves, shape), np.broadcast_to(values[:, None], shape))

    def draw(self, n: int) -> dict[str, Array]:
        """Draw `n` transitions of each member, as `UniformReplay.draw` does, and their importance weights."""
        data = super().draw(n)
        chances = self._tree.get(self._drawn)  # [P, n] multiplied by the total
        parts = chances.reshape(len(chances), -1, self._part_of(n))
        # The number of transitions, the total and the largest weight all cancel out.
        weights = (parts.min(axis=2, keepdims=True) / parts) ** self.beta[:, None, None]
        return {**data, "weights": weights.ravel().astype(np.float32)}

    def _draw(self, n: int) -> tuple[Array, Array]:
        size = self._part_of(n)
        within = np.stack([rng.random(n) for rng in self._rngs])  # [P, n]
        shares = (np.arange(n) % size + within) / size
        self._drawn = self._tree.find(shares * self._tree.totals[:, None])
        slots, environments = np.divmod(self._drawn, self.n_envs)
        return slots.ravel(), (environments + self.n_envs * np.arange(len(within))[:, None]).ravel()

    def _part_of(self, n: int) -> int:
        """Return the number of rows over which draws are stratified: those of a minibatch."""
        return self.batch_size if n % self.batch_size == 0 else n

    def update_priorities(self, priorities: Array) -> None:
        found = priorities.reshape(len(self._drawn), -1) + self._numbers["eps"][:, None]  # [P, rows]
        leaves, self._drawn = np.split(self._drawn, [found.shape[1]], axis=1)
        self._tree.set(leaves, found ** self._numbers["alpha"][:, None])
        self._largest = np.maximum(self._largest, found.max(axis=1))

    @classmethod
    def of_members(cls, buffers: Sequence[Self]) -> Self:
        joined = super().of_members(buffers)
        first = buffers[0]._numbers
        joined._numbers = {name: np.concatenate([buffer._numbers[name] for buffer in buffers]) for name in first}
        joined._largest = np.concatenate([buffer._largest for buffer in buffers])
        joined._tree = SumTree(joined.capacity * joined.n_envs, len(buffers))
        joined._drawn = np.zeros((len(buffers), 0), np.int64)
        return joined

    def bytes_when_full(self, transition: Transition) -> int:
        return super().bytes_when_full(transition) + self._tree.n_bytes

    def select(self, positions: Sequence[int]) -> None:
        super().select(positions)
        kept = list(positions)
        self._numbers = {name: values[kept] for name, values in self._numbers.items()}
        self._largest, self._drawn = self._largest[kept], self._drawn[kept]
        self._tree.select(kept)

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Set `priority_alpha`, `priority_beta` or `priority_eps` for later priorities and draws."""
        super().set_hyperparameter(name, value, position)
        own = name.removeprefix("priority_")
        if own != name and own in self._numbers:
            self._numbers[own][slice(None) if position is None else position] = value

    def copy_member(self, source: int, target: int) -> None:
        """Bound the priorities of a member by the largest one of the member that it copies.

        Those of a member that diverged are huge or NaN, and it would draw nothing else.
        """
        super().copy_member(source, target)
        self._largest[target] = self._largest[source]
        leaves = self._tree.leaves[:, : len(self)].copy()
        largest = self._largest[target] ** self._numbers["alpha"][source]  # whose alpha it gets, too
        leaves[target] = np.where(leaves[target] <= largest, leaves[target], largest)  # NaN, too
        self._tree.load(leaves)

    def get_state(self) -> dict[str, Any]:
        return {
            **super().get_state(),
            "priorities": self._tree.leaves[:, : len(self)].copy(),
            "largest": self._largest.copy(),
            "numbers": {name: values.copy() for name, values in self._numbers.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        if "priorities" not in state:
            raise ConfigurationError(
                "A prioritised replay cannot be restored from the state of one without priorities."
            )
        super().set_state(state)
        self._tree.load(state["priorities"])
        self._largest = state["largest"].copy()
        self._numbers = {name: values.copy() for name, values in state["numbers"].items()}
        self._drawn = np.zeros((len(self._largest), 0), np.int64)
