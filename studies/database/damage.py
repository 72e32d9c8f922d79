"""Storages whose contents cannot be: what a damaged file, or another program's change, leaves of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from json import JSONDecodeError
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from studies.errors import StudyError
from studies.spec.attributes import CONFIRMS_ATTR, REASON_ATTR, RUNG_ATTR, TRACEBACK_ATTR

RESTORE = "Restore the storage from a copy, or remove what is damaged with a tool of its database."
"""What to do about a damaged storage."""

MADE = "alembic_version"
"""The table that Optuna fills last: where it has a row, all others were made."""

OPTUNA_TABLES = (
    "studies",
    "study_directions",
    "study_user_attributes",
    "study_system_attributes",
    "trials",
    "trial_params",
    "trial_values",
    "trial_intermediate_values",
    "trial_user_attributes",
    "trial_system_attributes",
    "version_info",
)
"""Tables that Optuna has from its version 3 on."""


class DamagedError(StudyError):
    """What is stored cannot be read, or cannot be: a file was damaged, or another program changed it."""


def damaged(what: str, why: str) -> DamagedError:
    """Returns the error for something in a storage that cannot be.

    Args:
        what: What it is, such as `trial 3`.
        why: What is wrong with it.
    """
    return DamagedError(f"{what} is damaged ({why}). {RESTORE}")


def reason_of(error: BaseException) -> str:
    """Returns what a database or Optuna says is wrong, on one line."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    told = " ".join(str(getattr(cause, "orig", None) or cause).split()).rstrip(".?")
    return told if type(cause).__name__ in told or len(told.split()) > 2 else f"{type(cause).__name__}: {told}"


def is_of_contents(error: BaseException) -> bool:
    """Returns whether an error of a call says that the storage cannot be read or written as it is."""
    if isinstance(error, IntegrityError | StudyError):
        return False
    of_values = isinstance(error, JSONDecodeError | UnicodeDecodeError | OverflowError) or type(error) is LookupError
    return of_values or isinstance(error, SQLAlchemyError | StorageInternalError)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, dict) and all(
        seed.removeprefix("-").isdecimal() and _is_number(number) for seed, number in value.items()
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_MAY_BE: Mapping[str, Callable[[Any], bool]] = {
    "seed_values": _are_seeds,
    "env_steps": lambda value: value is None or _is_number(value),
    "wall_seconds": lambda value: value is None or _is_number(value),
    "configuration": _is_table,
    "custom_metrics": _is_table,
    "range_test": _is_table,
    CONFIRMS_ATTR: lambda value: isinstance(value, int),
    REASON_ATTR: _is_text,
    TRACEBACK_ATTR: _is_text,
    RUNG_ATTR: _is_table,
}
"""Attribute of a trial -> whether a value may be one."""


def check_trials(trials: Iterable[FrozenTrial], study: str) -> None:
    """Checks that what is read of trials is what was written.

    Args:
        trials: The trials.
        study: The study's name, for errors.

    Raises:
        DamagedError: An attribute, or a value, is of another kind.
    """
    for trial in trials:
        for name, value in trial.user_attrs.items():
            may_be = _MAY_BE.get(name)
            if may_be is not None and not may_be(value):
                shown = repr(value)[:60]
                raise damaged(f"trial {trial.number} of the study {study!r}", f"its attribute {name!r} is {shown}")
        for value in trial.values or ():
            if not _is_number(value) or math.isinf(value):
                raise damaged(f"trial {trial.number} of the study {study!r}", f"its value is {value!r}")
