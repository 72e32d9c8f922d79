"""The schedule that a confirmation repeats: a finalist of population-based training has no constant numbers."""

from __future__ import annotations

from typing import Any

from studies.analysis.schedules import lineage_of
from studies.database.records import Ask
from studies.study.study import OpenStudy


def repeated_schedule(study: OpenStudy, ask: Ask) -> tuple[dict[str, Any], tuple[tuple[int, dict[str, float]], ...]]:
    """Return the parameters with which a trial begins, and the changes that it repeats.

    The weights of a finalist come from other members, so that its confirmation begins with the numbers of the first of
    these, and repeats the numbers of each in its time.

    Args:
        study: The study.
        ask: The trial.
    """
    lineage = None if ask.confirms is None else lineage_of(study, ask.confirms)
    if lineage is None:
        return dict(ask.params), ()
    first, *changes = lineage.schedule
    return {**ask.params, **first.params}, tuple((each.env_steps, dict(each.params)) for each in changes)
