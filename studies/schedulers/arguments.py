"""Checks of the arguments of samplers and pruners that users name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from studies.errors import StudyError, nearest
from studies.spaces.numbers import is_number
from studies.spaces.spaces import Json


def check_arguments(target: type[Any], kwargs: Mapping[str, Json], what: str, taken: set[str]) -> None:
    """Raise `StudyError` for arguments that `target` does not have or rejects, or that the study sets (`taken`)."""
    parameters = inspect.signature(target).parameters
    allowed = set(parameters) - taken
    for key, value in kwargs.items():
        if key in taken:
            raise StudyError(f"{what} takes {key!r} from the study, not from its arguments: set it there.")
        if key not in allowed:
            raise StudyError(f"{what} has no argument {key!r}. {nearest(key, allowed)}")
        if is_number(parameters[key].default) and isinstance(value, str):
            raise StudyError(f"{what} has {value!r} as {key}: give a number, such as {parameters[key].default}.")
