"""Frozen pydantic model whose validation errors are one readable `StudyError`."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from studies.errors import StudyError, nearest
from studies.redaction import redacted


class CheckedModel(BaseModel):
    """Base class for descriptions that users write: immutable, without unknown keys, with one readable error.

    The error of pydantic lists every failed branch of a union in its own vocabulary; the command line needs a sentence.
    Subclasses therefore raise `StudyError`, also when they are built through `model_validate`.

    Raises:
        StudyError: Names each wrong key, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**plain(data))
        except ValidationError as error:
            raise StudyError(explain(error, type(self))) from None


_PYTHON = frozenset({bool, float, int, str, type(None)})


def plain(value: Any) -> Any:
    """Return a value with Python numbers and lists in place of NumPy's, also within lists, tuples and dictionaries.

    Any other value is returned as it is. NumPy is not imported: without it, there is nothing to convert.
    """
    numpy = sys.modules.get("numpy")
    return value if numpy is None else _plain(value, numpy)


def _plain(value: Any, numpy: Any) -> Any:
    if type(value) in _PYTHON:  # the most values of a long plan by far
        return value
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, list | tuple | numpy.ndarray):
        items = value.tolist() if isinstance(value, numpy.ndarray) else value
        if not isinstance(items, list | tuple):  # an array without dimensions
            return items
        converted = [_plain(each, numpy) for each in items]
        return tuple(converted) if isinstance(value, tuple) else converted
    if isinstance(value, dict):
        return {_plain(name, numpy): _plain(own, numpy) for name, own in value.items()}
    return value


def whole(value: Any) -> Any:
    """Return a float without a fraction, such as 2e5, as the integer; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the sentences for a pydantic error, one per mistake, joined by spaces."""
    return " ".join(sentence for _, sentence in mistakes(error, model))


def mistakes(error: ValidationError, model: type[BaseModel]) -> list[tuple[tuple[int | str, ...], str]]:
    """Return the location of each mistake, as keys from the outside in, and a sentence that describes it.

    Args:
        error: Error that pydantic raised.
        model: Model that was built; its fields are the allowed keys.
    """
    found = []
    for item in error.errors():
        location = ".".join(str(part) for part in item["loc"]) or model.__name__
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, StudyError):
            sentence = f"{location}: {cause}" if item["loc"] else str(cause)
        elif item["type"] == "extra_forbidden":
            sentence = f"unknown key {location!r}. {nearest(location, model.model_fields)}"
        elif item["type"] == "missing":
            sentence = f"{location!r} is missing: give it."
        else:
            message = item["msg"][:1].lower() + item["msg"][1:]
            sentence = f"{location} is {redacted(repr(item['input']))}: {message}."
        found.append((item["loc"], sentence))
    return found
