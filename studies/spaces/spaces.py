"""Search spaces of hyperparameters: ranges, choices and fixed values, each perhaps under a condition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from studies.checked_model import CheckedModel, plain
from studies.errors import StudyError
from studies.spaces.numbers import is_number

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LARGEST = 2**63 - 1
"""Largest integer that databases can store."""

_MOST_STEPS = 10**24
"""Limit on the steps of a range: beyond it, the remainder of a division has more digits than `Decimal` computes."""


def as_json(value: Any) -> Any:
    """Return a value as a storage returns it: with lists in place of tuples and arrays, and numbers of Python."""
    return _with_lists(plain(value))


def _with_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_with_lists(each) for each in value]
    return {name: _with_lists(own) for name, own in value.items()} if isinstance(value, dict) else value


Json = Annotated[Any, BeforeValidator(as_json)]
"""JSON value: None, bool, int, float, str, list or dict of these. In fields, tuples and arrays become lists."""


def _as_conditions(given: Any) -> Any:
    """Return conditions with a tuple of values each; a single value is a tuple of one."""
    if not isinstance(given, Mapping):
        raise StudyError(f"when is {given!r}: give a table of parameters and values, such as {{optimizer = 'sgd'}}.")
    found = {}
    for name, value in given.items():
        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not isinstance(name, str) or not name or not values:
            raise StudyError(f"when is {dict(given)!r}: give each parameter at least one value.")
        for each in values:
            check_json(each)
        found[name] = values
    return found


Conditions = Annotated[dict[str, tuple[Json, ...]], BeforeValidator(_as_conditions)]
"""Parameter -> its values under which another parameter exists. All parameters must have one of their values."""


class ConditionalModel(CheckedModel):
    """Base class for search spaces: the conditions under which the hyperparameter exists.

    Args:
        when: Other searched parameter -> one or several of its values; a trial has this parameter only if every other
            parameter has one of its values (`studies.spaces.conditions`). Defaults to none: every trial has it.

    Raises:
        StudyError: If it is not a table of parameters and values.
    """

    # Left out of stored specs where it is empty, so that earlier versions read them.
    when: Conditions = Field(default_factory=dict, exclude_if=lambda when: not when)

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


class FloatRange(ConditionalModel):
    """Range of real numbers from `low` to `high`, both inclusive.

    Args:
        low: Smallest value.
        high: Largest value, above `low`.
        log: Whether values are drawn on a logarithmic scale. Needs `low > 0`. Defaults to `False`.
        step: Only `low`, `low + step`, ... are allowed. Excludes `log`. Defaults to `None`.

    Raises:
        StudyError: If the numbers contradict each other or are not finite.
    """

    type: Literal["float"] = "float"
    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __init__(self, low: float, high: float, log: bool = False, step: float | None = None, **extra: Any) -> None:
        super().__init__(low=low, high=high, log=log, step=step, **extra)

    @model_validator(mode="after")
    def _check(self) -> FloatRange:
        _check_range(self.low, self.high, self.log, self.step)
        return self


class IntRange(ConditionalModel):
    """Range of integers from `low` to `high`, both inclusive.

    Args:
        low: Smallest value.
        high: Largest value, above `low`.
        log: Whether values are drawn on a logarithmic scale. Needs `low >= 1`. Defaults to `False`.
        step: Only `low`, `low + step`, ... are allowed. Excludes `log`. Defaults to `None`, which is 1.

    Raises:
        StudyError: If the numbers contradict each other or are not integers.
    """

    type: Literal["int"] = "int"
    low: int
    high: int
    log: bool = False
    step: int | None = None

    def __init__(self, low: int, high: int, log: bool = False, step: int | None = None, **extra: Any) -> None:
        super().__init__(low=low, high=high, log=log, step=step, **extra)

    @model_validator(mode="after")
    def _check(self) -> IntRange:
        _check_range(self.low, self.high, self.log, self.step)
        return self


class Choice(ConditionalModel):
    """Unordered choice of one of several values.

    Args:
        values: At least one value, all different, each a JSON value. `1`, `1.0` and `True` count as equal, because
            storages cannot distinguish them.

    Raises:
        StudyError: If there is no value, two are equal or one is not JSON.
    """

    type: Literal["choice"] = "choice"
    values: tuple[Json, ...]

    def __init__(self, values: Any, **extra: Any) -> None:
        super().__init__(values=values, **extra)

    @model_validator(mode="after")
    def _check(self) -> Choice:
        if not self.values:
            raise StudyError("a choice without values was given: give at least one value.")
        stored: set[object] = set()
        for value in self.values:
            check_json(value)
            if (key := encode(value)) in stored:
                raise StudyError(f"the choice {list(self.values)!r} has {value!r} twice: give each value once.")
            stored.add(key)
        return self


class Fixed(ConditionalModel):
    """One value for every trial.

    Args:
        value: A JSON value.

    Raises:
        StudyError: If the value is not JSON.
    """

    type: Literal["fixed"] = "fixed"
    value: Json

    def __init__(self, value: Any, **extra: Any) -> None:
        super().__init__(value=value, **extra)

    @model_validator(mode="after")
    def _check(self) -> Fixed:
        check_json(self.value)
        return self


Space = FloatRange | IntRange | Choice | Fixed
"""Search space of one hyperparameter."""


def extremes(space: Space) -> list[Json]:
    """Return the choices of a space, the two ends of a range, or the fixed value."""
    if isinstance(space, Choice):
        return list(space.values)
    return [space.value] if isinstance(space, Fixed) else [space.low, space.high]


def distribution(space: Space) -> BaseDistribution:
    """Return the Optuna distribution of a space.

    A fixed number is a range of zero width rather than a choice: Optuna lets ranges grow within a study, but not
    choices, and a plan of one learning rate may get a second one. Positive planned numbers are on a log scale for the
    same reason (`studies.spaces.plan.inferred_spaces`).
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(space, FloatRange):
        return FloatDistribution(space.low, space.high, log=space.log, step=space.step)
    if isinstance(space, IntRange):
        return IntDistribution(space.low, space.high, log=space.log, step=space.step or 1)
    if isinstance(space, Choice):
        return CategoricalDistribution([encode(value) for value in space.values])
    value = space.value
    if not is_number(value):
        return CategoricalDistribution([encode(value)])
    if isinstance(value, int):
        return IntDistribution(value, value, log=value > 0)
    return FloatDistribution(value, value, log=value > 0)


def encode(value: Json) -> bool | int | float | str | None:
    """Return a parameter value as Optuna stores it: lists and tables, such as layer sizes, as JSON text."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | tuple | dict) else value


def decode_params(params: Mapping[str, Any], spaces: Mapping[str, Space]) -> dict[str, Json]:
    """Return the parameters of a trial as they were given, undoing `encode`.

    Args:
        params: Parameters of an Optuna trial.
        spaces: Search space of the study.
    """
    decoded = dict(params)
    for name, value in params.items():
        space = spaces.get(name)
        if isinstance(space, Choice | Fixed) and isinstance(value, str):
            decoded[name] = next((given for given in extremes(space) if encode(given) == value), value)
    return decoded


def settle(space: Space, value: Json) -> Json:
    """Check that a planned value lies in a space, and return it with the type of the space.

    Args:
        space: Search space of the hyperparameter.
        value: Planned value. The ends and steps of a `FloatRange` are matched to one part in 10^9 of the range (of the
            value, if the range is logarithmic), because the last point of a grid is often computed.

    Returns:
        The value: a float in a `FloatRange`, an int in an `IntRange`, otherwise the equal value of the space.

    Raises:
        StudyError: If the value lies outside, or between two steps.
    """
    value = as_json(value)
    if isinstance(space, Choice | Fixed):
        values = extremes(space)
        for allowed in values:
            if allowed == value:
                return allowed
        raise StudyError(f"{value!r} is not one of {values!r}: add it to the space or take it out of the trials.")
    if not is_number(value):
        raise StudyError(f"{value!r} is not a number between {space.low} and {space.high}.")
    if isinstance(space, IntRange) and int(value) != value:
        raise StudyError(f"{value!r} is not a whole number between {space.low} and {space.high}.")
    number = int(value) if isinstance(space, IntRange) else _matched(space, float(value))
    if not space.low <= number <= space.high:
        raise StudyError(f"{value!r} is outside {space.low}:{space.high}: widen the space or take the value out.")
    if space.step is not None and not _is_step(number, space.low, space.high, space.step):
        raise StudyError(
            f"{value!r} lies between two steps of {space.low}:{space.high}:{space.step}: give another value, or the "
            "space another step."
        )
    return number


def _matched(space: FloatRange, number: float) -> float:
    """Return the end of a range that a number is a rounding error away from; another number as it is."""
    for end in (space.low, space.high):
        slack = 1e-9 * (end if space.log else space.high - space.low)
        if abs(number - end) <= slack:
            return end
    return number


def _is_step(number: float, low: float, high: float, step: float) -> bool:
    n_steps = (number - low) / step
    return abs(n_steps - round(n_steps)) <= 1e-9 * max(1.0, (high - low) / step)


def check_json(value: Json) -> None:
    """Raise `StudyError` unless `value` survives JSON unchanged (no NaN, no infinity, no instance of another class)."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyError(
            f"{value!r} cannot be stored in a study ({error}): give None, a bool, a finite number, text, or lists and "
            "tables of these."
        ) from None
    if isinstance(value, dict) and json.loads(text).keys() != value.keys():
        raise StudyError(f"{value!r} has keys that are not text: give text keys.")


def _check_range(low: float, high: float, log: bool, step: float | None) -> None:
    for end in (low, high):
        if isinstance(end, int) and abs(end) > LARGEST:
            raise StudyError(f"{low}:{high} has {end}: whole numbers go up to {LARGEST}.")
    if not low < high:
        raise StudyError(f"low is {low} and high is {high}: low must be below high; for one value give just the value.")
    if log and low <= 0:
        raise StudyError(
            f"low is {low} in a logarithmic range: it must be above 0, or the range linear ('{low}:{high}:linear'). "
            "The scale of a range that does not name it is that of the hyperparameter."
        )
    if step is None:
        return
    if log:
        raise StudyError(f"step is {step} in a logarithmic range: leave one of them out.")
    if step <= 0:
        raise StudyError(f"step is {step}: it must be above 0.")
    # Decimal, because 0.3 - 0.1 is not 2 * 0.1 in binary and Optuna would silently move the end of the range.
    span, stride = Decimal(str(high)) - Decimal(str(low)), Decimal(str(step))
    if stride > span:
        raise StudyError(f"step is {step} in {low}:{high}, which is shorter: give a smaller step, or none.")
    if span / stride > _MOST_STEPS:
        raise StudyError(f"step is {step} in {low}:{high}, which are too many steps: give a larger step, or none.")
    if span % stride:
        reachable = Decimal(str(low)) + span // stride * stride
        raise StudyError(f"steps of {step} from {low} do not meet {high}: the last step lands on {reachable}, use it.")
