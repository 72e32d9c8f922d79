"""Plans: parameter sets to run in order. Pure functions over rows, where a row is one parameter set."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from studies.errors import StudyError, nearest
from studies.spaces.conditions import check_rows, existing, exists, in_order
from studies.spaces.numbers import is_finite, is_number
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, Json, Space, settle

Row = Mapping[str, Json]

_MAX_GRID = 100_000


def row_key(row: Row) -> str:
    """Return a text that is equal for rows with the same parameters, and only for these."""
    return json.dumps(dict(row), sort_keys=True)


def pending_rows(plan: Sequence[Row], done: Iterable[Row]) -> list[dict[str, Json]]:
    """Return the planned rows that are still to run, in the order of the plan.

    Args:
        plan: All rows. A row that occurs twice is run twice.
        done: Rows that need no further run.
    """
    left = Counter(row_key(row) for row in done)
    pending = []
    for row in plan:
        key = row_key(row)
        if left[key]:
            left[key] -= 1
        else:
            pending.append(dict(row))
    return pending


def inferred_spaces(rows: Sequence[Row], known: Mapping[str, Space]) -> dict[str, Space]:
    """Return spaces for planned parameters without a given space.

    Numbers get the range that they span, logarithmic if they are positive, so that a longer plan can continue the
    study; anything else becomes a choice of the planned values.
    """
    spaces: dict[str, Space] = {}
    for name in sorted({name for row in rows for name in row} - set(known)):
        distinct = _distinct(row[name] for row in rows if name in row)
        if not all(is_number(value) and is_finite(value) for value in distinct):
            spaces[name] = Choice(values=tuple(distinct))
        elif len(distinct) == 1:
            spaces[name] = Fixed(value=distinct[0])
        else:
            low, high = min(distinct), max(distinct)
            log = low > 0
            if all(isinstance(value, int) for value in distinct):
                spaces[name] = IntRange(low, high, log=log)
            else:
                spaces[name] = FloatRange(float(low), float(high), log=log)
    return spaces


def _distinct(values: Iterable[Json]) -> list[Json]:
    """Return the values without those that equal an earlier one, as 1, 1.0 and True do."""
    first: dict[Hashable, Json] = {}
    for value in values:
        first.setdefault(_key(value), value)
    return list(first.values())


def _key(value: Json) -> Hashable:
    """Return a key that is equal for equal JSON values, and only for these; a space refuses all other values."""
    if isinstance(value, list | tuple):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return frozenset((name, _key(own)) for name, own in value.items())
    return value if isinstance(value, Hashable) else id(value)


def settled_rows(
    rows: Sequence[Row], spaces: Mapping[str, Space], what: str = "planned trial"
) -> tuple[dict[str, Json], ...]:
    """Return the rows with every value checked against its space and converted to the type of the space.

    Args:
        rows: Rows.
        spaces: Search space, with a space for every parameter of the rows.
        what: Name of a row in errors. Defaults to `planned trial`.

    Raises:
        StudyError: Names the row, the parameter and the value that lies outside, or the condition that does not hold.
    """
    settled = []
    for number, row in enumerate(rows):
        if not row:
            raise StudyError(f"{what} {number} is empty: give it at least one parameter.")
        try:
            settled.append({name: _settle(name, spaces[name], value) for name, value in row.items()})
        except StudyError as error:
            raise StudyError(f"{what} {number}, {error}") from None
    check_rows(settled, spaces, what)
    return tuple(settled)


def checked_first(rows: Sequence[Row], spaces: Mapping[str, Space]) -> tuple[dict[str, Json], ...]:
    """Return the first trials of a search, converted to the types of their spaces; see `settled_rows`."""
    strange = sorted({name for row in rows for name in row} - set(spaces))
    if strange:
        raise StudyError(
            f"first has {strange[0]!r}, which is not searched: take it out, or give it a space. "
            f"{nearest(strange[0], spaces)}"
        )
    return settled_rows(rows, spaces, "first trial")


def checked_baseline(row: Row | None, planned: Sequence[Row], spaces: Mapping[str, Space]) -> dict[str, Json] | None:
    """Return the baseline of a search, converted to the types of its spaces.

    Args:
        row: Its parameters; None if there is no baseline.
        planned: Rows that are certainly run.
        spaces: Search space.

    Raises:
        StudyError: If it is not planned, or lacks a parameter.
    """
    if row is None:
        return None
    try:
        settled = {name: _settle(name, spaces[name], value) for name, value in row.items() if name in spaces}
    except StudyError as error:
        raise StudyError(f"baseline, {error}") from None
    if settled.keys() != row.keys() or settled not in planned:
        raise StudyError(f"baseline is {dict(row)}, which is not among the first trials or the plan: add it to them.")
    if lacking := sorted(existing({**dict.fromkeys(spaces), **settled}, spaces).keys() - settled.keys()):
        raise StudyError(f"baseline is {dict(row)}, without {lacking[0]}: give it, and its trial, all parameters.")
    return settled


def grid_rows(spaces: Mapping[str, Space], options: Mapping[str, Json], seed: int) -> tuple[dict[str, Json], ...]:
    """Return every combination of the values of a space, in an order that depends on `seed` only.

    The order is shuffled so that a study that stops early has covered the whole space thinly rather than one corner of
    it. Combinations that differ in parameters that do not exist in them are one.

    Args:
        spaces: Search space.
        options: `points` (at least 2): number of values of each `FloatRange` without a step, both ends included, evenly
            spaced (in the logarithm where the range is logarithmic).
        seed: Seed of the study.

    Raises:
        StudyError: If a range has no finite number of values and `points` is not given, or the grid is too large.
    """
    unknown = sorted(set(options) - {"points"})
    if unknown:
        raise StudyError(f"the grid sampler has no argument {unknown[0]!r}. {nearest(unknown[0], ['points'])}")
    points = options.get("points")
    if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 2):
        raise StudyError(f"points is {points!r}: give a whole number from 2.")
    ordered = in_order(dict(sorted(spaces.items())))
    lengths = {name: axis_length(name, space, points) for name, space in ordered.items()}
    rows: list[dict[str, Json]] = [{}]
    for name, space in ordered.items():
        within = [row for row in rows if exists(space, row)]
        size = len(rows) + len(within) * (lengths[name] - 1)
        if size > _MAX_GRID:  # found before the values are listed, which may not fit into memory
            is_conditional = any(each.when for each in spaces.values())
            found = f"more than {_MAX_GRID}" if is_conditional else math.prod(lengths.values())
            raise StudyError(
                f"the grid has {found} points: use fewer values or a sampler such as tpe (at most {_MAX_GRID})."
            )
        values = _axis(space, points) if within else []
        rows = [
            longer
            for row in rows
            for longer in ([{**row, name: value} for value in values] if exists(space, row) else [row])
        ]
    random.Random(seed).shuffle(rows)
    return tuple(row for row in rows if row)


def _settle(name: str, space: Space, value: Json) -> Json:
    try:
        return settle(space, value)
    except StudyError as error:
        raise StudyError(f"{name}: {error}") from None


def axis_length(name: str, space: Space, points: int | None = None) -> int:
    """Return the number of values of a parameter in a grid.

    Raises:
        StudyError: If a range has no finite number of values and `points` is not given.
    """
    if isinstance(space, Choice):
        return len(space.values)
    if isinstance(space, Fixed):
        return 1
    if isinstance(space, IntRange):
        return (space.high - space.low) // (space.step or 1) + 1
    if space.step is not None:
        return _n_steps(space.low, space.high, space.step) + 1
    if points is None:
        raise StudyError(
            f"{name} ranges over all numbers from {space.low} to {space.high}, which is not a grid: give it a step "
            f"({name}=low:high:step), list its values ({name}=a,b,c), or set the number of values of such ranges "
            "(points in sampler_kwargs, --sampler-kwargs '{\"points\": 5}')."
        )
    return points


def _n_steps(low: float, high: float, step: float) -> int:
    return round((high - low) / step)


def values_of(space: Space) -> Iterable[Json]:
    """Return the values of a parameter that has a finite number of them, without listing them."""
    if isinstance(space, Choice):
        return space.values
    if isinstance(space, Fixed):
        return (space.value,)
    if isinstance(space, IntRange):
        return range(space.low, space.high + 1, space.step or 1)
    assert space.step is not None
    n_steps = _n_steps(space.low, space.high, space.step)
    return itertools.chain((space.low + index * space.step for index in range(n_steps)), [space.high])


def _axis(space: Space, points: int | None) -> list[Json]:
    """Return the values of a parameter in a grid; see `axis_length`."""
    if not isinstance(space, FloatRange) or space.step is not None:
        return list(values_of(space))
    assert points is not None  # `axis_length` has checked it
    inner = range(1, points - 1)
    if space.log:
        ratio = space.high / space.low
        return [space.low, *(space.low * ratio ** (index / (points - 1)) for index in inner), space.high]
    span = space.high - space.low
    return [space.low, *(space.low + span * index / (points - 1) for index in inner), space.high]
