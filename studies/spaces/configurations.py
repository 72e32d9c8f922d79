"""The configurations of spaces with a finite number of values. Pure functions over spaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from studies.spaces.conditions import exists, in_order
from studies.spaces.plan import steps_of
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, Json, Space


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
    return sum(1 for _ in itertools.islice(configurations(spaces), most))


def _extended(row: dict[str, Json], spaces: Sequence[tuple[str, Space]]) -> Iterator[dict[str, Json]]:
    if not spaces:
        yield row
        return
    (name, space), later = spaces[0], spaces[1:]
    if not exists(space, row):
        yield from _extended(row, later)
        return
    for value in _values(space):
        yield from _extended({**row, name: value}, later)


def _values(space: Space) -> Iterable[Json]:
    if isinstance(space, Choice):
        return space.values
    if isinstance(space, Fixed):
        return (space.value,)
    if isinstance(space, IntRange):
        return range(space.low, space.high + 1, space.step or 1)
    assert space.step is not None  # by `is_finite_space`
    return steps_of(space.low, space.high, space.step)
