"""Rungs whose distances grow by a factor, as in successive halving and Hyperband."""

from __future__ import annotations


class GeometricRungs:
    """Rungs at ``first * factor**k`` environment steps.

    Args:
        first: Environment steps of the first rung, >= 1.
        factor: Factor from rung to rung, >= 2.

    Raises:
        ValueError: If a number is out of range; by the names that users give them, `min_resource` and
            `reduction_factor`.
    """

    def __init__(self, first: int, factor: int) -> None:
        if first < 1:
            raise ValueError(f"min_resource is {first}: it must be at least 1.")
        if factor < 2:
            raise ValueError(f"reduction_factor is {factor}: it must be at least 2.")
        self._first, self.factor = first, factor

    def below(self, step: int) -> int | None:
        """Return the highest rung at or below a step, None before the first."""
        if step < self._first:
            return None
        rung = self._first
        while rung * self.factor <= step:
            rung *= self.factor
        return rung
