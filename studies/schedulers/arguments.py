"""Checks of the arguments of samplers and pruners that users name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from studies.checked_model import whole
from studies.errors import StudyError, nearest
from studies.spaces.numbers import is_number
from studies.spaces.spaces import Json

_STEPS = ("at", "min_resource", "max_resource", "n_warmup_steps")
"""Arguments that are environment steps."""


def checked_arguments(target: type[Any], kwargs: Mapping[str, Json], what: str, taken: set[str]) -> dict[str, Json]:
    """Return arguments as `target` takes them: whole numbers as integers, if they are written as 2e3.

    Args:
        target: Class of the sampler or pruner.
        kwargs: The arguments.
        what: Its name in errors.
        taken: Arguments that the study sets.

    Raises:
        StudyError: `target` does not have an argument or rejects it, or the study sets it.
    """
    parameters = inspect.signature(target).parameters
    allowed = set(parameters) - taken
    checked = dict(kwargs)
    for key, value in kwargs.items():
        if key in taken:
            raise StudyError(f"{what} takes {key!r} from the study, not from its arguments: set it there.")
        if key not in allowed:
            raise StudyError(f"{what} has no argument {key!r}. {nearest(key, allowed)}")
        if is_number(parameters[key].default) and isinstance(value, str):
            raise StudyError(f"{what} has {value!r} as {key}: give a number, such as {parameters[key].default}.")
        if isinstance(value, float) and parameters[key].annotation in (int, "int", "int | None"):
            checked[key] = whole(value)
            if isinstance(checked[key], float):
                unit = " of environment steps, not a share of the budget" if key in _STEPS else ""
                raise StudyError(f"{what} has {value!r} as {key}: give a whole number{unit}.")
    return checked
