"""Serialization of specs in study attributes, with a version that detects unreadable ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies.errors import StudyError
from studies.spaces.spaces import Json
from studies.spec.spec import StudySpec

SPEC_ATTR = "finder_spec"
"""Study attribute: the spec as JSON. Studies of other programs do not have it."""

VERSION_ATTR = "finder_spec_version"
"""Study attribute: version of the spec. Studies of early versions have none, which means version 1."""

SPEC_VERSION = 2
"""Current version of specs. It is incremented when a field is added, removed or changes its meaning.

Version 2 has conditional parameters, warm starts, baselines, budgets of the whole search, longer runs of finalists,
several objectives, and metrics beside return and loss. Specs without any are stored as version 1, which earlier
versions of Finder read.
"""

_MOVED_CALLBACKS = {
    "agents.callbacks:Progress": "agents.callbacks.progress:Progress",
    "agents.interrupts:StopOnSignals": "agents.callbacks.signals:StopOnSignals",
    "agents.plateaus:EarlyStop": "agents.callbacks.plateaus:EarlyStopping",
    "agents.plateaus:ReduceOnPlateau": "agents.callbacks.plateaus:ReduceOnPlateau",
}
"""Place of a callback of `agents` in stored specs of earlier versions -> its place now."""


def stored_attributes(spec: StudySpec, label: str) -> dict[str, Json]:
    """Return the study attributes that store a spec.

    Args:
        spec: The spec.
        label: Label of its storage, without a password: the dashboard shows attributes to everyone.
    """
    version = 2 if _has_later_features(spec) else 1
    return {VERSION_ATTR: version, SPEC_ATTR: {**spec.to_json_dict(), "storage": label}}


def _has_later_features(spec: StudySpec) -> bool:
    """Return whether a spec cannot be read by versions of Finder that know version 1 only."""
    is_conditional = any(space.when for space in spec.params.values())
    return (
        is_conditional
        or spec.warm_start is not None
        or spec.baseline is not None
        or spec.confirm_env_steps is not None
        or spec.has_limit
        or bool(spec.metrics)
        or spec.metric not in ("return", "loss")
    )


def is_finder_study(attributes: Mapping[str, Any]) -> bool:
    """Return whether a study with these attributes was created by Finder."""
    return SPEC_ATTR in attributes


def read_spec(attributes: Mapping[str, Any], name: str) -> StudySpec:
    """Return the spec that study attributes hold.

    Args:
        attributes: Attributes of the study.
        name: Name of the study, for errors.

    Raises:
        StudyError: If a later version wrote the spec, or it is damaged.
    """
    version, stored = attributes.get(VERSION_ATTR, 1), attributes[SPEC_ATTR]
    if not isinstance(version, int) or version > SPEC_VERSION:
        raise StudyError(
            f"the study {name!r} was made by a later version of Finder (spec version {version}, this one reads up to "
            f"{SPEC_VERSION}): upgrade Finder."
        )
    if not isinstance(stored, dict):
        raise StudyError(f"the study {name!r} cannot be read: its spec is {type(stored).__name__}, not a mapping.")
    try:
        if isinstance(callbacks := stored.get("callbacks"), list):
            stored = {**stored, "callbacks": [_MOVED_CALLBACKS.get(place, place) for place in callbacks]}
        return StudySpec.from_json_dict(stored)
    except (StudyError, TypeError) as error:
        raise StudyError(f"the study {name!r} cannot be read: {error}") from None
