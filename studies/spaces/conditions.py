"""Conditional spaces: parameters that exist only when others have certain values. Pure functions over spaces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

from studies.errors import StudyError, nearest
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, Json, Space, encode, settle

Spaces = Mapping[str, Space]
Row = Mapping[str, Json]


def checked_conditions(spaces: Spaces, fixed: Mapping[str, Json]) -> dict[str, Space]:
    """Return spaces whose conditions have the types of the spaces that they refer to.

    Args:
        spaces: Search space.
        fixed: Hyperparameters with the same value in every trial, for errors.

    Raises:
        StudyError: If a condition refers to a parameter that is not searched, or to a value that it cannot have; if
            conditions form a circle; or if they contradict each other, so that a parameter never exists.
    """
    checked = {
        name: space.model_copy(update={"when": _checked_when(name, space, spaces, fixed)}) if space.when else space
        for name, space in spaces.items()
    }
    for name in in_order(checked):
        _requirements(name, checked)
    return checked


def _checked_when(name: str, space: Space, spaces: Spaces, fixed: Mapping[str, Json]) -> dict[str, tuple[Json, ...]]:
    found = {}
    for other, values in space.when.items():
        if other == name:
            raise StudyError(f"{name} depends on itself: take its condition out.")
        if other in fixed:
            raise StudyError(
                f"{name} depends on {other}, which is fixed to {fixed[other]!r}: take the condition out, or search "
                f"{other}."
            )
        if other not in spaces:
            raise StudyError(
                f"{name} depends on {other!r}, which is not searched: give it a space, or take the condition out. "
                f"{nearest(other, set(spaces) - {name}) if set(spaces) - {name} else ''}".rstrip()
            )
        found[other] = tuple(_possible(name, other, spaces[other], value) for value in values)
    return found


def _possible(name: str, other: str, space: Space, value: Json) -> Json:
    """Return a value of a condition with the type of the space that it refers to."""
    if isinstance(space, FloatRange):
        raise StudyError(
            f"{name} depends on {other}={value!r}, but {other} is a range of real numbers, which hardly ever has that "
            f"value: make {other} a choice, or take the condition out."
        )
    never = StudyError(
        f"{name} depends on {other}={value!r}, a value that {other} never has: give one of {_values_text(space)}, or "
        f"add it to the space of {other}."
    )
    try:
        settled = settle(space, value)
    except StudyError:
        raise never from None
    return settled


def _values_text(space: IntRange | Choice | Fixed) -> str:
    if isinstance(space, IntRange):
        return f"{space.low}:{space.high}{f' in steps of {space.step}' if space.step else ''}"
    return str(list(space.values) if isinstance(space, Choice) else [space.value])


def in_order(spaces: Spaces) -> dict[str, Space]:
    """Return spaces such that each follows those that it depends on, otherwise in the given order.

    Raises:
        StudyError: If conditions form a circle.
    """
    ordered: dict[str, Space] = {}
    left = dict(spaces)
    while left:
        ready = next((name for name, space in left.items() if not left.keys() & space.when.keys()), None)
        if ready is None:
            circle = _circle(left)
            raise StudyError(
                f"conditions form a circle: {' depends on '.join(circle)}. Take one of these conditions out."
            )
        ordered[ready] = left.pop(ready)
    return ordered


def _circle(spaces: Spaces) -> list[str]:
    """Return a circle of parameters that depend on each other, the first one repeated at the end."""
    path = [next(iter(spaces))]
    while path[-1] not in path[:-1]:
        path.append(next(name for name in spaces[path[-1]].when if name in spaces))
    return path[path.index(path[-1]) :]


def _requirements(name: str, spaces: Spaces) -> dict[str, tuple[Json, ...]]:
    """Return the values that all parameters need, directly or through others, for a parameter to exist.

    Raises:
        StudyError: If there are none.
    """
    found: dict[str, tuple[Json, ...]] = {}
    for other, values in spaces[name].when.items():
        for required, own in [(other, values), *_requirements(other, spaces).items()]:
            both = tuple(value for value in found.get(required, own) if value in own)
            if not both:
                raise StudyError(
                    f"{name} never exists: its conditions need {required} to be both "
                    f"{_either(found[required])} and {_either(own)}. Take one of them out."
                )
            found[required] = both
    return found


def assignments(name: str, spaces: Spaces) -> Iterator[dict[str, Json]]:
    """Yield the values of other parameters under which a parameter exists; one empty set if it always does."""
    needed = _requirements(name, spaces)
    for values in itertools.product(*needed.values()):
        yield dict(zip(needed, values, strict=True))


def exists(space: Space, params: Mapping[str, Json]) -> bool:
    """Return whether a parameter exists in a trial.

    Args:
        space: Search space of the parameter.
        params: Parameters of the trial that it depends on. One that is missing does not exist either.
    """
    return holds(space.when, params)


def holds(when: Mapping[str, Sequence[Json]], params: Mapping[str, Json]) -> bool:
    """Return whether each parameter of a condition exists and has one of its values."""
    return all(other in params and params[other] in values for other, values in when.items())


def existing(row: Row, spaces: Spaces) -> dict[str, Json]:
    """Return the parameters of a row that exist, given the others, in the order of the row."""
    kept: dict[str, Json] = {}
    for name, space in in_order(spaces).items():
        if name in row and exists(space, kept):
            kept[name] = row[name]
    return {name: value for name, value in row.items() if name in kept}


def encoded_conditions(spaces: Spaces) -> dict[str, dict[str, tuple[Json, ...]]]:
    """Return the conditions of each conditional parameter, with values as Optuna stores them."""
    return {
        name: {other: tuple(encode(value) for value in values) for other, values in space.when.items()}
        for name, space in spaces.items()
        if space.when
    }


def check_rows(rows: Sequence[Row], spaces: Spaces, what: str) -> None:
    """Check that the parameters of rows exist.

    Args:
        rows: Rows.
        spaces: Search space.
        what: Name of a row in errors.

    Raises:
        StudyError: If a row has a parameter whose condition does not hold; names the row, the parameter and the values
            with which it exists.
    """
    constant = {name: space.value for name, space in spaces.items() if isinstance(space, Fixed)}
    for number, row in enumerate(rows):
        known = {**constant, **row}
        for name in row:
            for other, values in spaces[name].when.items():
                if known.get(other, _MISSING) in values:
                    continue
                present = f"{other} is {known[other]!r}" if other in known else f"it has no {other}"
                raise StudyError(
                    f"{what} {number} has {name}, which exists only if {other} is {_either(values)}, but {present}: "
                    f"take {name} out, or give {other} such a value."
                )


_MISSING = object()


def condition_text(space: Space) -> str:
    """Return the conditions of a space as its notation has them: `@optimizer=sgd,rmsprop`; "" if it has none."""
    return "".join(f"@{other}={','.join(map(value_text, values))}" for other, values in space.when.items())


def _either(values: Sequence[Json]) -> str:
    return " or ".join(map(repr, values))


def value_text(value: Json) -> str:
    """Return a value as flags have it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
