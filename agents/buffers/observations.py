"""Observations of a ring of transitions, each stored once.

The successor of a time slot is the observation of the next slot, unless an episode ended between them: only then is it
stored separately. Stacked frames are stored as frames (`agents.buffers.frames`). A replay buffer of images therefore
takes half of the memory, one of stacks of four an eighth, and returns the same rows, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.buffers.frames import FrameRing, StackFinder

Array = np.ndarray[Any, Any]


def are_images(observations: Array) -> bool:
    """Return whether observations are large enough to be stored once: images."""
    return observations.dtype == np.uint8 and observations.ndim > 3


class Observations:
    """Observations and their successors of `capacity` time slots, of some environments (columns) side by side.

    Args:
        capacity: Time slots.
        first: Example of the observations to store, [columns, ...].
    """

    def __init__(self, capacity: int, first: Array) -> None:
        self.capacity = capacity
        self._seen = np.zeros((capacity, *first.shape), first.dtype)  # memory is allocated on first write
        self._frames: FrameRing | None = None  # replaces `_seen` for stacked frames
        self._finder: StackFinder | None = StackFinder(first.shape[-1])  # None once the search has ended
        self._added = 0
        self._apart: dict[tuple[int, int], Array] = {}  # slot, column -> a successor that is not in the next slot
        self._is_apart = np.zeros((capacity, len(first)), bool)
        self._newest: int | None = None  # slot
        self._last = np.zeros_like(first)  # successors of that slot

    def add(self, slot: int, observations: Array, successors: Array) -> None:
        """Store a time slot, the one after the newest."""
        if self._newest is not None:
            self._settle(self._newest, observations)
            if self._finder is not None and not self._is_apart[self._newest, 0]:
                self._switch_to_frames(self._finder.add(self._seen[self._newest, 0], observations[0]))
        for column in np.flatnonzero(self._is_apart[slot]).tolist():  # of the previous round
            del self._apart[slot, column]
        self._is_apart[slot] = False
        if self._frames is None:
            self._seen[slot] = observations
        else:
            self._frames.add(observations)
        self._added += 1
        self._newest, self._last = slot, np.array(successors)

    def _settle(self, slot: int, following: Array) -> None:
        """Store the successors of the newest slot that differ from the following observations."""
        n_columns = len(following)
        differs = (self._last != following).reshape(n_columns, -1).any(axis=1)
        for column in np.flatnonzero(differs).tolist():
            self._apart[slot, column] = self._last[column].copy()
        self._is_apart[slot] = differs

    def _switch_to_frames(self, size: int | None) -> None:
        """Switch to frames if observations stack frames of `size` channels."""
        if size is None:
            return
        self._finder = None
        if size:
            frames = FrameRing(self.capacity, self._last, size)
            for time in range(max(0, self._added - self.capacity), self._added):
                frames.add(self._seen[time % self.capacity])
            self._frames, self._seen = frames, self._seen[:0].copy()  # a view would keep the whole array alive

    def observations(self, rows: Array) -> Array:
        """Return the observations at flat positions, slot * columns + column."""
        if self._frames is not None:
            slots, columns = np.divmod(rows, self._is_apart.shape[1])
            assert self._newest is not None
            return self._frames.take(self._frames.times - 1 - (self._newest - slots) % self.capacity, columns)
        flat = self._seen.reshape(-1, *self._seen.shape[2:])
        return flat.take(rows, axis=0)

    def successors(self, rows: Array) -> Array:
        """Return the successors of the observations at flat positions."""
        n_columns = self._is_apart.shape[1]
        slots, columns = np.divmod(rows, n_columns)
        following = np.where(slots == self._newest, slots, (slots + 1) % self.capacity)
        found = self.observations(following * n_columns + columns)
        for i in np.flatnonzero(slots == self._newest).tolist():
            found[i] = self._last[columns[i]]
        for i in np.flatnonzero(self._is_apart[slots, columns]).tolist():
            found[i] = self._apart[int(slots[i]), int(columns[i])]
        return found

    def select(self, columns: Array) -> None:
        """Keep only these columns, in this order."""
        places = {int(old): new for new, old in enumerate(columns)}
        self._seen = self._seen.take(columns, axis=1)
        if self._frames is not None:
            self._frames.select(columns)
        self._is_apart = self._is_apart.take(columns, axis=1)
        self._last = self._last[columns]
        self._apart = {(slot, places[at]): one for (slot, at), one in self._apart.items() if at in places}

    @property
    def nbytes(self) -> int:
        """Current size in bytes."""
        apart = sum(each.nbytes for each in self._apart.values())
        frames = 0 if self._frames is None else self._frames.nbytes
        return self._seen.nbytes + frames + self._is_apart.nbytes + self._last.nbytes + apart

    def get_state(self, stored: int) -> dict[str, Any]:
        """Return everything that is stored in the slots written so far."""
        places = np.array(sorted(self._apart), np.int64).reshape(-1, 2)
        apart = [self._apart[int(slot), int(column)] for slot, column in places]
        return {
            "seen": self._seen[:stored].copy(),
            "frames": None if self._frames is None else self._frames.get_state(),
            "added": self._added,
            "places": places,
            "apart": np.stack(apart) if apart else self._last[:0].copy(),
            "newest": self._newest,
            "last": self._last.copy(),
        }

    @classmethod
    def of_state(cls, capacity: int, state: dict[str, Any]) -> Observations:
        """Restore observations from a state of `get_state`."""
        made = cls(capacity, state["last"])
        made._seen[: len(state["seen"])] = state["seen"]
        for (slot, column), one in zip(state["places"].tolist(), state["apart"], strict=True):
            made._apart[slot, column] = one.copy()
            made._is_apart[slot, column] = True
        made._newest, made._last = state["newest"], state["last"].copy()
        made._added = state["added"]
        if state["frames"] is not None:
            made._frames = FrameRing.of_state(capacity, made._last, state["frames"])
            made._finder, made._seen = None, made._seen[:0].copy()
        return made

    @classmethod
    def of_both(cls, capacity: int, slots: Sequence[int], observations: Array, successors: Array) -> Observations:
        """Make observations from arrays that contain successors in full, as in older states.

        Args:
            capacity: Time slots.
            slots: Slots that were written, oldest first.
            observations: [slots, columns, ...].
            successors: [slots, columns, ...].
        """
        made = cls(capacity, observations[0])
        made._added = slots[0] if slots else 0
        for slot in slots:
            made.add(slot, observations[slot], successors[slot])
        return made
