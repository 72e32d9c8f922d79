"""What a study searches, as its storage keeps it: with a version, so that one that cannot be read is known as such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies.errors import StudyError
from studies.spec.spaces import Json
from studies.spec.spec import StudySpec

SPEC_ATTR = "finder_spec"
"""Study attribute: the spec as JSON. A study without it was not made by this package."""

VERSION_ATTR = "finder_spec_version"
"""Study attribute: the version of the spec; studies of before have none, and are of version 1."""

SPEC_VERSION = 1
"""Version of specs as this version writes them. Raised when a field is added or removed, or means something else."""


def stored_attributes(spec: StudySpec, label: str) -> dict[str, Json]:
    """Returns the study attributes that keep a spec.

    Args:
        spec: The spec.
        label: The label of its storage, which has no password: everyone who sees the dashboard sees attributes.
    """
    return {VERSION_ATTR: SPEC_VERSION, SPEC_ATTR: {**spec.to_json_dict(), "storage": label}}


def is_ours(attributes: Mapping[str, Any]) -> bool:
    """Returns whether a study with these attributes was made by this package."""
    return SPEC_ATTR in attributes


def read_spec(attributes: Mapping[str, Any], name: str) -> StudySpec:
    """Returns what a study searches.

    Args:
        attributes: The study's attributes.
        name: The study's name, for errors.

    Raises:
        StudyError: A later version wrote it, or it is damaged.
    """
    version, stored = attributes.get(VERSION_ATTR, 1), attributes[SPEC_ATTR]
    if not isinstance(version, int) or version > SPEC_VERSION:
        raise StudyError(
            f"the study {name!r} was made by a later version of Finder (spec version {version}, this one reads up to "
            f"{SPEC_VERSION}): upgrade with pip install -U agentfinder."
        )
    if not isinstance(stored, dict):
        raise StudyError(f"the study {name!r} cannot be read: what it searches is {type(stored).__name__}, no mapping.")
    try:
        return StudySpec.from_json_dict(stored)
    except (StudyError, TypeError) as error:
        raise StudyError(f"the study {name!r} cannot be read: {error}") from None
