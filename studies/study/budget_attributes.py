"""Attributes of a study about the budget of its whole search, by which its processes know how far it is.

The process that leads the search keeps the budget. No process begins trials of the search after it has ended for the
budget, and no trials are added after the confirmation has begun for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy

CONFIRMED_ATTR = "finder_confirmed_budget"
"""Study attribute: minutes and environment steps of the whole search for which its confirmation has begun."""

ENDED_ATTR = "finder_budget_ended"
"""Study attribute: whether no further trials of the search begin, as there is no budget for them."""

CHOSEN_ATTR = "finder_chosen_finalists"
"""Study attribute: number of finalists that the budget of the whole search has chosen last."""

GIVEN_ATTR = "finder_given"
"""Study attribute: fields that were given beside the budget of the whole search, rather than chosen for it."""

_CHOSEN_FIELDS = ("env_steps", "confirm_env_steps", "n_trials")


def store_given(study: OpenStudy, asked: StudySpec) -> None:
    """Store which fields the present call gives, rather than the budget of the whole search.

    Args:
        study: The study.
        asked: Its spec as it was requested.
    """
    given = fields_given(asked)
    if asked.has_limit and study.study.user_attrs.get(GIVEN_ATTR) != given:
        study.study.set_user_attr(GIVEN_ATTR, given)


def fields_given(asked: StudySpec) -> list[str]:
    """Return the fields that a request gives, out of those that the budget of a whole search chooses otherwise."""
    return [name for name in _CHOSEN_FIELDS if name in asked.model_fields_set and getattr(asked, name) is not None]


def given_fields(study: OpenStudy) -> frozenset[str]:
    """Return the fields that the latest call gave beside the budget of the whole search; none if that is unknown."""
    return frozenset(study.study.user_attrs.get(GIVEN_ATTR) or ())


def store_chosen_finalists(study: OpenStudy, confirm: int) -> None:
    """Store the number of finalists that the budget of the whole search has chosen."""
    if study.study.user_attrs.get(CHOSEN_ATTR) != confirm:
        study.study.set_user_attr(CHOSEN_ATTR, confirm)


def has_chosen_finalists(study: OpenStudy) -> bool:
    """Return whether the budget of the whole search has chosen the present number of finalists, rather than a user."""
    return bool(study.study.user_attrs.get(CHOSEN_ATTR) == study.spec.confirm)


def store_ended(study: OpenStudy, ended: bool) -> None:
    """Store whether the search begins no further trials, as there is no budget for them."""
    if bool(study.study.user_attrs.get(ENDED_ATTR)) != ended:
        study.study.set_user_attr(ENDED_ATTR, ended)


def has_ended(study: OpenStudy) -> bool:
    """Return whether the search begins no further trials, as there is no budget for them."""
    return study.spec.has_limit and bool(study.study.user_attrs.get(ENDED_ATTR))


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
