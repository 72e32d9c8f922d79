"""The memories of a population's members as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.buffers.buffer import Array, Batches, Memory, Transition
from agents.buffers.hindsight import HindsightReplay
from agents.buffers.prioritized import PrioritizedReplay
from agents.buffers.rollout import RolloutMemory
from agents.buffers.trajectories import TrajectoryReplay
from agents.buffers.uniform import UniformReplay


def join(memories: Sequence[Memory]) -> Memory:
    """One memory for all members, from a new memory of each.

    The product's own are stored and sampled together; others are kept side by side.
    """
    for kind in (RolloutMemory, TrajectoryReplay, UniformReplay, PrioritizedReplay, HindsightReplay):
        if all(type(memory) is kind for memory in memories):
            return kind.of_members(memories)  # type: ignore[arg-type]
    return SideBySide(memories)


class SideBySide(Memory):
    """Memories that know nothing of populations, one a member.

    Args:
        memories: New ones, all of one class; an update must be due for all at the same time.
    """

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = list(memories)

    @property
    def member_axis(self) -> int:  # type: ignore[override]
        """As the memories have it; 0 for those that do not say."""
        return getattr(self._memories[0], "member_axis", 0)

    @property
    def off_policy(self) -> bool:  # type: ignore[override]
        """As the memories have it."""
        return self._memories[0].off_policy

    @property
    def computes_rewards(self) -> bool:  # type: ignore[override]
        """As the memories have it."""
        return self._memories[0].computes_rewards

    @property
    def until_due(self) -> int:
        return max(memory.until_due for memory in self._memories)

    def updated(self) -> None:
        for memory in self._memories:
            memory.updated()

    def add(self, transition: Transition) -> None:
        split = [np.split(values, len(self._memories)) for values in transition]
        for memory, parts in zip(self._memories, zip(*split, strict=True), strict=True):
            memory.add(Transition(*parts))

    @property
    def due(self) -> bool:
        return all(memory.due for memory in self._memories)

    def take(self) -> dict[str, Array]:
        return concatenate([memory.take() for memory in self._memories], self.member_axis)

    def batches(self, data: dict[str, Array]) -> Batches:
        parts = split(data, len(self._memories), self.member_axis)
        each = [memory.batches(part) for memory, part in zip(self._memories, parts, strict=True)]
        columns = {name: np.stack([batches.data[name] for batches in each]) for name in each[0].data}
        indices = np.stack([batches.indices for batches in each])
        return Batches(columns, indices, contiguous=all(batches.contiguous for batches in each))

    def learned(self, priorities: Array) -> None:
        for memory, own in zip(self._memories, priorities, strict=True):
            memory.learned(own)

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        for memory in self._memories if position is None else [self._memories[position]]:
            memory.set_hyperparameter(name, value)

    def cut(self, environments: Sequence[int] | None = None) -> None:
        if environments is not None:
            raise ValueError("members have no pool: their environments begin anew together")
        for memory in self._memories:
            memory.cut()

    def keep(self, positions: Sequence[int]) -> None:
        self._memories = [self._memories[i] for i in positions]

    def get_state(self) -> dict[str, Any]:
        return {"memories": [memory.get_state() for memory in self._memories]}

    def set_state(self, state: dict[str, Any]) -> None:
        for memory, own in zip(self._memories, state["memories"], strict=True):
            memory.set_state(own)


def concatenate(parts: Sequence[dict[str, Array]], axis: int) -> dict[str, Array]:
    """The data of all members in one, one member's rows after the other's."""
    return {name: np.concatenate([part[name] for part in parts], axis) for name in parts[0]}


def split(data: dict[str, Array], n_members: int, axis: int) -> list[dict[str, Array]]:
    """The data of each member, undone from `concatenate`."""
    pieces = {name: np.split(values, n_members, axis) for name, values in data.items()}
    return [{name: values[i] for name, values in pieces.items()} for i in range(n_members)]
