"""Arguments of samplers and pruners that users name: checks, and warnings that they have answered."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from studies.errors import StudyError, nearest
from studies.spaces.spaces import Json


@contextlib.contextmanager
def chosen_by_name() -> Iterator[None]:
    """Silence Optuna's warning on experimental classes, which users have chosen by name."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def check_arguments(target: type[Any], kwargs: Mapping[str, Json], what: str, taken: set[str]) -> None:
    """Raise `StudyError` for arguments that `target` does not have or rejects, or that the study sets (`taken`)."""
    parameters = inspect.signature(target).parameters
    allowed = set(parameters) - taken
    for key, value in kwargs.items():
        if key in taken:
            raise StudyError(f"{what} takes {key!r} from the study, not from its arguments: set it there.")
        if key not in allowed:
            raise StudyError(f"{what} has no argument {key!r}. {nearest(key, allowed)}")
        is_number = isinstance(parameters[key].default, int | float) and not isinstance(parameters[key].default, bool)
        if is_number and isinstance(value, str):
            raise StudyError(f"{what} has {value!r} as {key}: give a number, such as {parameters[key].default}.")
