"""A counter that many processes add to."""

from __future__ import annotations


class Counter:
    """A counter. A plain instance is local; `agents.distributed.shared` returns one that processes share.

    Args:
        start: Initial value. Defaults to 0.
    """

    def __init__(self, start: float = 0) -> None:
        self._value = start

    def add(self, amount: float = 1) -> float:
        """Add `amount` to the counter and return the new value."""
        self._value += amount
        return self._value

    def value(self) -> float:
        """Return the current value."""
        return self._value

    def reset(self, value: float = 0) -> float:
        """Set the counter to `value` and return the previous value."""
        before, self._value = self._value, value
        return before
