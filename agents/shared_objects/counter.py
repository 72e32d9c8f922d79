"""A number that many processes add to."""

from __future__ import annotations


class Counter:
    """A number. By itself an ordinary object; see `agents.distributed.shared` for one that processes share.

    Args:
        start: Where it begins. Defaults to 0.
    """

    def __init__(self, start: float = 0) -> None:
        self._value = start

    def add(self, amount: float = 1) -> float:
        """Adds to it; gives the new value."""
        self._value += amount
        return self._value

    def value(self) -> float:
        """What it is now."""
        return self._value

    def reset(self, value: float = 0) -> float:
        """Begins again, at `value`; gives what it was."""
        before, self._value = self._value, value
        return before
