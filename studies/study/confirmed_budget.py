"""The budget of the whole search for which the confirmation of a study has begun, after which no trials are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy

CONFIRMED_ATTR = "finder_confirmed_budget"
"""Study attribute: minutes and environment steps of the whole search for which its confirmation has begun."""


def store_confirmed_budget(study: OpenStudy) -> None:
    """Store that the confirmation begins for the present budget."""
    now = _budgets(study.spec)
    if study.study.user_attrs.get(CONFIRMED_ATTR) != now:
        study.study.set_user_attr(CONFIRMED_ATTR, now)


def keep_confirmed_budget(study: OpenStudy, before: StudySpec) -> None:
    """Store the budget that a study had before, if an earlier version has begun its confirmation without storing it."""
    if study.confirmation_trials() and CONFIRMED_ATTR not in study.study.user_attrs:
        study.study.set_user_attr(CONFIRMED_ATTR, _budgets(before))


def is_confirming(study: OpenStudy) -> bool:
    """Return whether the confirmation has begun for the present budget, rather than for a smaller one or not at all."""
    known = study.study.user_attrs.get(CONFIRMED_ATTR)
    if not study.confirmation_trials():
        return False
    if not isinstance(known, dict):  # an earlier version did not store it
        return True
    return all(now <= known.get(name, 0) for name, now in _budgets(study.spec).items())


def _budgets(spec: StudySpec) -> dict[str, float]:
    return {"minutes": spec.minutes or 0, "total_env_steps": spec.total_env_steps or 0}
