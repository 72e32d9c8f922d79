"""Detection of damaged storages: contents that a corrupt file or another program left inconsistent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from json import JSONDecodeError
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from studies.errors import StudyError
from studies.spaces.numbers import is_number
from studies.spec.attributes import (
    CONFIRMS_ATTR,
    FAILURE_ATTR,
    REASON_ATTR,
    RUNG_ATTR,
    STOPPED_ATTR,
    TRACEBACK_ATTR,
)

RESTORE = "Restore the storage from a copy, or remove what is damaged with a tool of its database."
"""Advice for a damaged storage."""

VERSION_TABLE = "alembic_version"
"""Table that Optuna fills last: if it has a row, all others were created."""

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
"""Tables of Optuna since its version 3."""


class DamagedError(StudyError):
    """Error for stored data that a damaged file or another program made unreadable or inconsistent."""


def damaged(what: str, reason: str) -> DamagedError:
    """Return the error for damaged data.

    Args:
        what: Name of the data, such as `trial 3`.
        reason: Reason.
    """
    return DamagedError(f"{what} is damaged ({reason}). {RESTORE}")


def reason_of(error: BaseException) -> str:
    """Return the reason that a database or Optuna gives for an error, on one line."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    message = " ".join(str(getattr(cause, "orig", None) or cause).split()).rstrip(".?")
    return (
        message if type(cause).__name__ in message or len(message.split()) > 2 else f"{type(cause).__name__}: {message}"
    )


def is_content_error(error: BaseException) -> bool:
    """Return whether an error means that the contents of the storage cannot be read or written."""
    if isinstance(error, IntegrityError | StudyError):
        return False
    of_values = isinstance(error, JSONDecodeError | UnicodeDecodeError | OverflowError) or type(error) is LookupError
    return of_values or isinstance(error, SQLAlchemyError | StorageInternalError)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_report(value: Any) -> bool:
    return _is_table(value) and isinstance(value.get("env_steps"), int) and _are_seeds(value.get("values"))


def _are_seeds(value: Any) -> bool:
    return isinstance(value, dict) and all(
        seed.removeprefix("-").isdecimal() and is_number(number) for seed, number in value.items()
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_MAY_BE: Mapping[str, Callable[[Any], bool]] = {
    "seed_values": _are_seeds,
    "env_steps": lambda value: value is None or is_number(value),
    "wall_seconds": lambda value: value is None or is_number(value),
    "configuration": _is_table,
    "custom_metrics": _is_table,
    "range_test": _is_table,
    CONFIRMS_ATTR: lambda value: isinstance(value, int),
    FAILURE_ATTR: _is_text,
    REASON_ATTR: _is_text,
    TRACEBACK_ATTR: _is_text,
    RUNG_ATTR: _is_table,
    STOPPED_ATTR: _is_report,
}
"""Attribute of a trial -> predicate of valid values."""


def check_trials(trials: Iterable[FrozenTrial], study: str) -> None:
    """Check that attributes and values of trials have the expected types.

    Args:
        trials: Trials.
        study: Name of the study, for errors.

    Raises:
        DamagedError: If an attribute or a value has another type.
    """
    for trial in trials:
        for name, value in trial.user_attrs.items():
            may_be = _MAY_BE.get(name)
            if may_be is not None and not may_be(value):
                shown = repr(value)[:60]
                raise damaged(f"trial {trial.number} of the study {study!r}", f"its attribute {name!r} is {shown}")
        for value in trial.values or ():
            if not is_number(value) or math.isinf(value):
                raise damaged(f"trial {trial.number} of the study {study!r}", f"its value is {value!r}")
