"""A ring of stacked frames, which stores each frame once.

An observation that equals the previous one, shifted by a frame, is stored as its newest frame. First observations of
episodes, and all others that are no such stack, are stored whole in addition: stored observations are restored bit for
bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_PROOFS = 16
"""Number of observations that must shift by the same number of channels before they count as stacks."""


class StackFinder:
    """Detector of the number of channels per frame in stacked observations.

    Args:
        n_channels: Channels of an observation.
    """

    def __init__(self, n_channels: int) -> None:
        self._candidates = [size for size in range(1, n_channels) if n_channels % size == 0]
        self._proofs = 0

    def add(self, before: Array, after: Array) -> int | None:
        """Process an observation and its successor, [H, W, C]; return the channels of a frame once they are certain.

        0 stands for observations that are no stacks.
        """
        if not self._candidates:
            return 0
        if np.array_equal(before, after):  # no evidence
            return None
        self._candidates = [s for s in self._candidates if np.array_equal(before[..., s:], after[..., :-s])]
        self._proofs += 1
        if not self._candidates:
            return 0
        return self._candidates[0] if self._proofs >= _PROOFS else None


class FrameRing:
    """Observations [columns, H, W, C] of the newest time slots, stored as frames.

    Args:
        capacity: Time slots.
        first: Example of the observations to store.
        size: Channels of a frame; a divisor of C.
    """

    def __init__(self, capacity: int, first: Array, size: int) -> None:
        n_columns, *sides, n_channels = first.shape
        self._size, self._depth = size, n_channels // size
        # The stacks of the oldest slots contain frames of earlier slots.
        self._length = capacity + self._depth - 1
        self._frames = np.zeros((self._length, n_columns, *sides, size), first.dtype)
        self._ages = np.zeros((self._length, n_columns), np.int16)  # stored frames of a stack, without its newest
        self._whole: dict[tuple[int, int], Array] = {}  # place, column -> an observation that is no shifted stack
        self._previous: Array | None = None
        self.times = 0  # slots written in total

    def add(self, observations: Array) -> None:
        """Store the next time slot."""
        place, size = self.times % self._length, self._size
        for column in np.flatnonzero(self._ages[place] == 0).tolist():
            self._whole.pop((place, column), None)
        if self._previous is None:
            moved_on = np.zeros(len(observations), bool)
        else:
            same = self._previous[..., size:] == observations[..., :-size]
            moved_on = same.reshape(len(observations), -1).all(axis=1)
        before = self._ages[place - 1]
        self._ages[place] = np.where(moved_on, np.minimum(before + 1, self._depth - 1), 0)
        for column in np.flatnonzero(~moved_on).tolist():
            self._whole[place, column] = observations[column].copy()
        self._frames[place] = observations[..., -size:]
        self._previous = np.array(observations)
        self.times += 1

    def take(self, times: Array, columns: Array) -> Array:
        """Return the observations of these time slots and columns, [M, H, W, C]."""
        n_columns, *sides = self._frames.shape[1:4]
        size, depth = self._size, self._depth
        flat = self._frames.reshape(-1, *self._frames.shape[2:])
        found = np.empty((len(times), *sides, depth * size), self._frames.dtype)
        for back in range(depth):
            end = (depth - back) * size
            rows = (times - back) % self._length * n_columns + columns
            found[..., end - size : end] = flat.take(rows, axis=0)
        ages = self._ages[times % self._length, columns]
        for i in np.flatnonzero(ages < depth - 1).tolist():
            age, rest = int(ages[i]), (depth - 1 - int(ages[i])) * size  # channels that only the whole observation has
            whole = self._whole[int((times[i] - age) % self._length), int(columns[i])]
            found[i, ..., :rest] = whole[..., age * size : age * size + rest]
        return found

    def select(self, columns: Array) -> None:
        """Keep only these columns, in this order."""
        places = {int(old): new for new, old in enumerate(columns)}
        self._frames, self._ages = self._frames.take(columns, axis=1), self._ages.take(columns, axis=1)
        self._previous = None if self._previous is None else self._previous[columns]
        self._whole = {(place, places[at]): one for (place, at), one in self._whole.items() if at in places}

    @property
    def nbytes(self) -> int:
        """Current size in bytes."""
        return self._frames.nbytes + self._ages.nbytes + sum(each.nbytes for each in self._whole.values())

    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored."""
        stored = min(self.times, self._length)
        places = np.array(sorted(self._whole), np.int64).reshape(-1, 2)
        return {
            "size": self._size,
            "frames": self._frames[:stored].copy(),
            "ages": self._ages[:stored].copy(),
            "places": places,
            "whole": [self._whole[int(place), int(column)].copy() for place, column in places],
            "previous": None if self._previous is None else self._previous.copy(),
            "times": self.times,
        }

    @classmethod
    def of_state(cls, capacity: int, first: Array, state: dict[str, Any]) -> FrameRing:
        """Make a ring from a state of `get_state`; `first` as for the constructor."""
        made = cls(capacity, first, state["size"])
        made._frames[: len(state["frames"])] = state["frames"]
        made._ages[: len(state["ages"])] = state["ages"]
        for (place, column), one in zip(state["places"].tolist(), state["whole"], strict=True):
            made._whole[place, column] = one.copy()
        made._previous = None if state["previous"] is None else state["previous"].copy()
        made.times = state["times"]
        return made
