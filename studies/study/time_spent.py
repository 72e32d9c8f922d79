"""The time that a study has taken so far, over all runs of the process that leads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

SECONDS_ATTR = "finder_seconds"
"""Study attribute: seconds that a study with a budget in minutes has taken."""


def read_seconds(study: OpenStudy) -> float:
    """Return the seconds that a study has taken; 0 for one without a budget in minutes."""
    kept = study.study.user_attrs.get(SECONDS_ATTR)
    return float(kept) if isinstance(kept, int | float) else 0.0


def store_seconds(study: OpenStudy, seconds: float) -> None:
    """Store the seconds that a study has taken."""
    study.study.set_user_attr(SECONDS_ATTR, round(seconds, 1))
