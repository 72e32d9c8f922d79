"""What a memory is to the trainer: it takes transitions, says when an update is due, and gives its minibatches.

On-policy and off-policy learning differ in nothing else: a rollout is due when it is full and gives every
transition several times; a replay is due every few steps and gives a sample.
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
    terminated: Array  # [N] bool: the environment ended the episode; nothing comes after it
    truncated: Array  # [N] bool: the episode was cut off; its value goes on


class Batches(NamedTuple):
    """Data for K gradient steps.

    `data[name][indices[k]]` is minibatch k, so that epochs over the same rows need no copies. For P members of a
    population everything has one more axis, before the others.
    """

    data: dict[str, Array]  # each [M, ...], or [P, M, ...]
    indices: Array  # [K, B] int32, or [P, K, B]
    contiguous: bool = False  # whether the minibatches are simply the rows in order
    begins: bool = True  # whether an update begins with these
    update: Batches | None = None  # the whole update, where these are its first minibatch alone

    def of_step(self, k: int) -> Batches:
        """Minibatch k alone."""
        rows = self.indices[..., k, :]  # [B] or [P, B]
        at = rows if rows.ndim == 1 else (np.arange(len(rows))[:, None], rows)
        data = {name: values[at] for name, values in self.data.items()}
        indices = in_order(1, rows.shape[-1], rows.shape[:-1])
        return Batches(data, indices, contiguous=True, begins=k == 0, update=self if k == 0 else None)

    def with_all_rows(self) -> Batches:
        """Return the same minibatches, among all rows of the update that begins with them."""
        if self.update is None:
            return self
        return Batches(self.update.data, self.update.indices[..., :1, :])


def in_order(n_steps: int, batch_size: int, members: tuple[int, ...] = ()) -> Array:
    """Indices of minibatches that are the rows in order: [K, B], or [P, K, B] for ``members=(P,)``."""
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
"""Old name of a method -> its name now."""


class Buffer(ABC):
    """Takes transitions and gives minibatches. Owns its random generator.

    The memory of a population (`agents.buffers.join`) holds P members with N environments each: its transitions have
    P * N rows, member after member.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_names(cls, _RENAMED)

    member_axis: ClassVar[int]
    """Which axis of the arrays that `take` gives has the rows of all members, one member's after the other's."""

    @abstractmethod
    def add(self, transition: Transition) -> None:
        """Store one step of all N environments."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Return whether an update should happen now."""

    @abstractmethod
    def sample(self) -> dict[str, Array]:
        """Return the data of the update that is due; the memory then waits for the next one.

        Arrays are ``[T, N, ...]`` in time order for a rollout and ``[M, ...]`` rows for a replay; see `member_axis`
        for those of a population.
        """

    @abstractmethod
    def batches(self, data: dict[str, Array]) -> Batches:
        """Split what `take` gave (and the agent prepared) into minibatches."""

    def update_priorities(self, priorities: Array) -> None:  # noqa: B027 - most memories draw without looking
        """Is told what the gradient steps on the newest data found, where the agent's loss names priorities.

        Args:
            priorities: [K, B], or [P, K, B]: how much there was to learn from each row of the minibatches, in their
                order. The steps of one update may come in parts, one after the other.
        """

    def bytes_when_full(self, transition: Transition) -> int:
        """How much memory it will take, in bytes, when it stores transitions like this one."""
        return sum(values.nbytes for values in transition)

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Everything that is stored, counters and generator included, as arrays and plain values."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on exactly where `get_state` was called."""

    def set_hyperparameter(  # noqa: B027 - most memories have none
        self, name: str, value: float, position: int | None = None
    ) -> None:
        """Take a changed live number, where the memory uses it; of one member of a population, or of all."""

    off_policy: ClassVar[bool] = False
    """Whether what older weights did may be learned from."""

    computes_rewards: ClassVar[bool] = False
    """Whether it learns from rewards that it computes itself, beside those that it was given."""

    def updated(self) -> None:  # noqa: B027 - for memories that hold something back
        """Is told that the update is made, all that was to be `learned` included: the next one may be due."""

    @property
    def steps_until_ready(self) -> int:
        """Steps of all environments that will be stored before an update is due, >= 1 where none is due now.

        1 by itself, which is always right: a pool's processes then collect one step at a time.
        """
        return 1

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:  # noqa: B027 - see below
        """End what is stored here: environments have begun new episodes, and what comes is no next step of it.

        Does nothing by itself: a memory that puts steps together has to mark its newest ones as truncated.

        Args:
            environments: Which of the N. Defaults to None: all.
        """

    def select(self, positions: Sequence[int]) -> None:
        """Goes on with these members only, in this order."""
        raise NotImplementedError(f"{type(self).__name__} is the memory of a single agent")


keep_old_names(Buffer, _RENAMED)
