"""Base class for buffers: store transitions, decide when an update is due, and return its minibatches.

On-policy and off-policy training differ only in the buffer: a rollout is due when it is full and returns every
transition several times; a replay buffer is due every few steps and returns a sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from agents.renamed import keep_old_names

Array = np.ndarray[Any, Any]


class Transition(NamedTuple):
    """One step of N environments."""

    observations: Array  # [N, ...]
    actions: Array  # [N] or [N, D]
    rewards: Array  # [N]
    next_observations: Array  # [N, ...] true successors
    terminated: Array  # [N] bool: the environment ended the episode; no bootstrap
    truncated: Array  # [N] bool: the episode was cut off; targets bootstrap


class Batches(NamedTuple):
    """Data for K gradient steps.

    `data[name][indices[k]]` is minibatch k, so that epochs over the same rows need no copies. For P members of a
    population every array has one more leading axis.
    """

    data: dict[str, Array]  # each [M, ...], or [P, M, ...]
    indices: Array  # [K, B] int32, or [P, K, B]
    contiguous: bool = False  # whether the minibatches are the rows in order
    begins: bool = True  # whether these are the first minibatches of an update
    update: Batches | None = None  # the whole update, if these are only its first minibatch

    def of_step(self, k: int) -> Batches:
        """Return minibatch k alone."""
        rows = self.indices[..., k, :]  # [B] or [P, B]
        at = rows if rows.ndim == 1 else (np.arange(len(rows))[:, None], rows)
        data = {name: values[at] for name, values in self.data.items()}
        indices = in_order(1, rows.shape[-1], rows.shape[:-1])
        return Batches(data, indices, contiguous=True, begins=k == 0, update=self if k == 0 else None)

    def with_all_rows(self) -> Batches:
        """Return the same minibatches, with all rows of the update that starts with them."""
        if self.update is None:
            return self
        return Batches(self.update.data, self.update.indices[..., :1, :])


def in_order(n_steps: int, batch_size: int, members: tuple[int, ...] = ()) -> Array:
    """Return indices of minibatches of consecutive rows: [K, B], or [P, K, B] for ``members=(P,)``."""
    indices = np.arange(n_steps * batch_size, dtype=np.int32).reshape(n_steps, batch_size)
    return np.broadcast_to(indices, (*members, n_steps, batch_size))


_RENAMED = {
    "take": "sample",
    "due": "ready",
    "until_due": "steps_until_ready",
    "learned": "update_priorities",
    "cut": "mark_truncated",
    "keep": "select",
}
"""Deprecated method name -> new name."""


class Buffer(ABC):
    """Base class for buffers, which store transitions and return minibatches. A buffer owns its random generator.

    The buffer of a population (`agents.buffers.join`) holds P members with N environments each: its transitions have
    P * N rows, member after member.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_names(cls, _RENAMED)

    member_axis: ClassVar[int]
    """Axis of the arrays of `sample` along which the rows of all members are concatenated."""

    @abstractmethod
    def add(self, transition: Transition) -> None:
        """Store one step of all N environments."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Return whether an update should happen now."""

    @abstractmethod
    def sample(self) -> dict[str, Array]:
        """Return the data of the update that is due, and start waiting for the next one.

        Arrays are ``[T, N, ...]`` in time order for a rollout and ``[M, ...]`` rows for a replay buffer; see
        `member_axis` for a population.
        """

    @abstractmethod
    def batches(self, data: dict[str, Array]) -> Batches:
        """Split the data of `sample` (preprocessed by the agent) into minibatches."""

    def update_priorities(self, priorities: Array) -> None:  # noqa: B027 - most buffers have no priorities
        """Set the priorities of the newest minibatches, where the agent's loss returns priorities.

        Args:
            priorities: [K, B], or [P, K, B]: priority of each row of the minibatches, in their order. The gradient
                steps of one update may be reported in several calls.
        """

    @property
    def rows_per_step(self) -> float:
        """Rows of all minibatches for each environment step, on average: a measure of the work of an update."""
        return 1.0

    def bytes_when_full(self, transition: Transition) -> int:
        """Return the size of the full buffer in bytes, for transitions like this one."""
        return sum(values.nbytes for values in transition)

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored, counters and generator included, as arrays and plain values."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of `get_state`."""

    def set_hyperparameter(  # noqa: B027 - most buffers have none
        self, name: str, value: float, position: int | None = None
    ) -> None:
        """Set a mutable hyperparameter of the buffer, for one member of a population or for all."""

    def copy_member(self, source: int, target: int) -> None:  # noqa: B027 - most buffers have nothing learned
        """Adapt the buffer of a member that gets the state of another one; its data stays.

        Args:
            source: Position of the member that is copied.
            target: Position of the member that gets the copy.
        """

    off_policy: ClassVar[bool] = False
    """True if transitions of older policies are used."""

    computes_rewards: ClassVar[bool] = False
    """True if the buffer computes rewards itself, in addition to the stored ones."""

    def updated(self) -> None:  # noqa: B027 - for buffers that hold steps back
        """Note that the update is complete, all its minibatches included: the next one may be due."""

    @property
    def steps_until_ready(self) -> int:
        """Return the steps of all environments until an update is due, >= 1 where none is due now.

        The default of 1 is always correct: worker processes then collect one step at a time.
        """
        return 1

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:  # noqa: B027 - see below
        """Mark the newest steps as truncated: environments have been reset outside the buffer.

        The default does nothing: a buffer that relates consecutive steps has to override it.

        Args:
            environments: Indices of environments. Defaults to None, all of them.
        """

    def select(self, positions: Sequence[int]) -> None:
        """Keep only these members, in this order."""
        raise NotImplementedError(f"{type(self).__name__} is the buffer of a single agent")


keep_old_names(Buffer, _RENAMED)

Memory = Buffer
"""Deprecated alias, kept for one version."""
