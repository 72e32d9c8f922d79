"""The time that a study has taken so far, over all runs of the process that leads it, and its beginning."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

BEGAN_ATTR = "finder_first_trial"
"""Study attribute: local time at the start of the first trial. That of a trial is lost when it is resumed."""

SECONDS_ATTR = "finder_seconds"
"""Study attribute: seconds that a study with a budget in minutes has taken."""


def began_at(study: OpenStudy) -> datetime | None:
    """Return the local time at the start of the first trial, None if none was started."""
    starts = [each.datetime_start for each in study.all_trials() if each.datetime_start is not None]
    kept = study.study.user_attrs.get(BEGAN_ATTR)
    return min([*starts, datetime.fromisoformat(kept)] if kept else starts, default=None)


def store_beginning(study: OpenStudy) -> None:
    """Store the start of the first trial, if there is one: call it before a trial is resumed."""
    if BEGAN_ATTR not in study.study.user_attrs and (began := began_at(study)) is not None:
        study.study.set_user_attr(BEGAN_ATTR, began.isoformat(timespec="milliseconds"))


def read_seconds(study: OpenStudy) -> float:
    """Return the seconds that a study has taken; 0 for one without a budget in minutes."""
    kept = study.study.user_attrs.get(SECONDS_ATTR)
    return float(kept) if isinstance(kept, int | float) else 0.0


def store_seconds(study: OpenStudy, seconds: float) -> None:
    """Store the seconds that a study has taken."""
    study.study.set_user_attr(SECONDS_ATTR, round(seconds, 1))
