"""The configurations of spaces with a finite number of values. Pure functions over spaces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from studies.spaces.conditions import exists, in_order
from studies.spaces.plan import axis_length, values_of
from studies.spaces.spaces import Fixed, FloatRange, Json, Space


def is_finite_space(spaces: Mapping[str, Space]) -> bool:
    """Return whether every parameter has a finite number of values: no range of real numbers without a step."""
    return not any(isinstance(space, FloatRange) and space.step is None for space in spaces.values())


def configurations(spaces: Mapping[str, Space]) -> Iterator[dict[str, Json]]:
    """Yield every configuration of a finite space once, each with the parameters that exist in it.

    Args:
        spaces: Search space; see `is_finite_space`.
    """
    yield from _extended({}, list(in_order(spaces).items()))


def n_configurations(spaces: Mapping[str, Space], most: int) -> int:
    """Return the number of configurations of a space, at most `most`; `most` if nothing is searched."""
    if not is_finite_space(spaces) or all(isinstance(space, Fixed) for space in spaces.values()):
        return most
    if any(space.when for space in spaces.values()):
        return sum(1 for _ in itertools.islice(configurations(spaces), most))
    return min(most, math.prod(axis_length(name, space) for name, space in spaces.items()))


def is_whole_space(spaces: Mapping[str, Space], n_trials: int) -> bool:
    """Return whether a space has exactly so many configurations."""
    return n_configurations(spaces, n_trials + 1) == n_trials


def _extended(row: dict[str, Json], spaces: Sequence[tuple[str, Space]]) -> Iterator[dict[str, Json]]:
    if not spaces:
        yield row
        return
    (name, space), later = spaces[0], spaces[1:]
    if not exists(space, row):
        yield from _extended(row, later)
        return
    for value in values_of(space):
        yield from _extended({**row, name: value}, later)
