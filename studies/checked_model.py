"""A frozen pydantic model whose mistakes come out as one `StudyError` that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from studies.errors import StudyError, nearest


class CheckedModel(BaseModel):
    """Base of every description that a user writes: immutable, no unknown keys, one readable error.

    Pydantic's own error lists every failed branch of a union in its own vocabulary; the command line needs a
    sentence. Subclasses therefore raise `StudyError`, also when they are built through `model_validate`.

    Raises:
        StudyError: Naming each wrong key, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise StudyError(explain(error, type(self))) from None


def explain(error: ValidationError, model: type[BaseModel], places: Mapping[str, str] | None = None) -> str:
    """Turns a pydantic error into sentences.

    Args:
        error: What pydantic raised.
        model: The model that was being built; its fields are the allowed keys.
        places: Where the first part of a key was written, such as `line 4`, for keys that come from a file.

    Returns:
        One sentence a mistake, joined by spaces.
    """
    sentences = []
    for item in error.errors():
        location = ".".join(str(part) for part in item["loc"]) or model.__name__
        place = (places or {}).get(_first_key(item["loc"], places or {}), "")
        prefix = f"{place}: " if place else ""
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, StudyError):
            sentences.append(f"{prefix}{location}: {cause}" if item["loc"] else f"{prefix}{cause}")
        elif item["type"] == "extra_forbidden":
            sentences.append(f"{prefix}unknown key {location!r}. {nearest(location, model.model_fields)}")
        elif item["type"] == "missing":
            sentences.append(f"{prefix}{location!r} is missing: give it.")
        else:
            sentences.append(f"{prefix}{location} is {item['input']!r}: {_lower_first(item['msg'])}.")
    return " ".join(sentences)


def _first_key(location: tuple[int | str, ...], places: Mapping[str, str]) -> str:
    """Returns the longest dotted beginning of `location` that `places` knows."""
    parts = [str(part) for part in location]
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in places:
            return key
    return ""


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
