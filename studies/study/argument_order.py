"""Deprecated argument order `(storage, name)` of functions that now take `(study_name, storage)`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from studies.errors import StudyError
from studies.storage.storage import StudyStorage
from studies.storage.storage_url import parse_storage_url

_P = ParamSpec("_P")
_T = TypeVar("_T")


def study_name_first(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function of `(study_name, storage)` that accepts the former order, `(storage, name)`, too.

    The former order is recognized by the keyword `name`, by an open storage in the first place, or by a storage URL in
    the first place with a second argument that is none. It raises a DeprecationWarning.

    Args:
        function: Function whose first two parameters are `study_name` and `storage`.
    """

    @functools.wraps(function)
    def accepting(*args: Any, **kwargs: Any) -> _T:
        former = _former_arguments(args, kwargs)
        if former is None:
            return function(*args, **kwargs)
        called = function.__name__
        warnings.warn(
            f"{called}(storage, name) is deprecated: call {called}(study_name, storage).",
            DeprecationWarning,
            stacklevel=2,
        )
        storage, name = former
        return function(name, storage)  # type: ignore[call-arg]

    return accepting


def _former_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return storage and name if the arguments are in the former order."""
    if "name" in kwargs:
        rest = {key: value for key, value in kwargs.items() if key != "name"}
        storage = args[0] if len(args) == 1 and not rest else rest.get("storage")
        return None if storage is None else (storage, kwargs["name"])
    if len(args) != 2 or kwargs:
        return None
    first, second = args
    if isinstance(first, StudyStorage) or (_is_storage(first) and not _is_storage(second)):
        return first, second
    return None


def _is_storage(value: Any) -> bool:
    if isinstance(value, StudyStorage):
        return True
    if not isinstance(value, str | PathLike):
        return False
    try:
        parse_storage_url(value)
    except StudyError:
        return False
    return True
