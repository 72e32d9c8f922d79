"""One buffer for all members of a population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.buffers.buffer import Array, Batches, Buffer, Transition
from agents.buffers.hindsight import HindsightReplay
from agents.buffers.prioritized import PrioritizedReplay
from agents.buffers.rollout import RolloutBuffer
from agents.buffers.sequences import SequenceReplay
from agents.buffers.trajectories import TrajectoryReplay
from agents.buffers.uniform import UniformReplay


def join(buffers: Sequence[Buffer]) -> Buffer:
    """Return one buffer for all members, from a new buffer of each.

    The product's own buffers are stored and sampled together; others are kept side by side.
    """
    for kind in (RolloutBuffer, TrajectoryReplay, UniformReplay, SequenceReplay, PrioritizedReplay, HindsightReplay):
        if all(type(buffer) is kind for buffer in buffers):
            return kind.of_members(buffers)  # type: ignore[arg-type]
    return SideBySide(buffers)


class SideBySide(Buffer):
    """Buffers without support for populations, one per member.

    Args:
        buffers: New buffers of one class; updates must be due for all at the same time.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = list(buffers)

    @property
    def member_axis(self) -> int:  # type: ignore[override]
        """Member axis of the buffers; 0 if they do not define one."""
        return getattr(self._buffers[0], "member_axis", 0)

    @property
    def off_policy(self) -> bool:  # type: ignore[override]
        """Value of the buffers."""
        return self._buffers[0].off_policy

    @property
    def computes_rewards(self) -> bool:  # type: ignore[override]
        """Value of the buffers."""
        return self._buffers[0].computes_rewards

    @property
    def steps_until_ready(self) -> int:
        return max(buffer.steps_until_ready for buffer in self._buffers)

    def updated(self) -> None:
        for buffer in self._buffers:
            buffer.updated()

    def add(self, transition: Transition) -> None:
        split = [np.split(values, len(self._buffers)) for values in transition]
        for buffer, parts in zip(self._buffers, zip(*split, strict=True), strict=True):
            buffer.add(Transition(*parts))

    @property
    def ready(self) -> bool:
        return all(buffer.ready for buffer in self._buffers)

    def sample(self) -> dict[str, Array]:
        return concatenate([buffer.sample() for buffer in self._buffers], self.member_axis)

    def batches(self, data: dict[str, Array]) -> Batches:
        parts = split(data, len(self._buffers), self.member_axis)
        each = [buffer.batches(part) for buffer, part in zip(self._buffers, parts, strict=True)]
        columns = {name: np.stack([batches.data[name] for batches in each]) for name in each[0].data}
        indices = np.stack([batches.indices for batches in each])
        return Batches(columns, indices, contiguous=all(batches.contiguous for batches in each))

    def update_priorities(self, priorities: Array) -> None:
        for buffer, own in zip(self._buffers, priorities, strict=True):
            buffer.update_priorities(own)

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        for buffer in self._buffers if position is None else [self._buffers[position]]:
            buffer.set_hyperparameter(name, value)

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        if environments is not None:
            raise ValueError("members have no pool: their environments are reset together")
        for buffer in self._buffers:
            buffer.mark_truncated()

    def select(self, positions: Sequence[int]) -> None:
        self._buffers = [self._buffers[i] for i in positions]

    def get_state(self) -> dict[str, Any]:
        return {"memories": [buffer.get_state() for buffer in self._buffers]}

    def set_state(self, state: dict[str, Any]) -> None:
        for buffer, own in zip(self._buffers, state["memories"], strict=True):
            buffer.set_state(own)


def concatenate(parts: Sequence[dict[str, Array]], axis: int) -> dict[str, Array]:
    """Return the data of all members as one, with the rows of members concatenated."""
    return {name: np.concatenate([part[name] for part in parts], axis) for name in parts[0]}


def split(data: dict[str, Array], n_members: int, axis: int) -> list[dict[str, Array]]:
    """Return the data of each member, undone from `concatenate`."""
    pieces = {name: np.split(values, n_members, axis) for name, values in data.items()}
    return [{name: values[i] for name, values in pieces.items()} for i in range(n_members)]
