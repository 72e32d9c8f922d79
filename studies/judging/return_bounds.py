"""Bounds of the returns of a study, from its recorded episodes and the limits of its environment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from studies.spec.attributes import LIMITS_KEY
from studies.spec.metrics import metric_of
from studies.statistics.bounds import NO_BOUNDS, Bounds, bounds_of

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy


_OF_RETURNS = ("return", "greedy-return", "auc")
"""Kinds of metrics whose values are means of returns."""


def return_bounds(study: OpenStudy) -> Bounds:
    """Return the bounds of the values of a search; `NO_BOUNDS` for losses and custom metrics.

    Greedy returns are bounded by the step limit where every step has the same reward.
    """
    kind = metric_of(study.spec.metric).kind
    if kind == "success-rate":
        return Bounds(0.0, 1.0)
    if kind == "steps-to":
        return _bounds_of_steps(study.spec, study.spec.budget)
    if kind not in _OF_RETURNS:
        return NO_BOUNDS
    seen = study.storage.episodes.return_extremes(study.episodes_key)
    if seen is None:
        return NO_BOUNDS
    if kind == "greedy-return":  # extremes of training episodes, which explore, are none of greedy ones
        seen = seen._replace(n_lowest=0, n_highest=0)
    known = _limits(study)
    steps: list[Any] = [each.get("max_episode_steps") for each in known]
    step_limit = max(steps) if steps and None not in steps else None
    return bounds_of(seen, step_limit, max(_thresholds(known), default=None))


def reward_threshold(study: OpenStudy) -> float | None:
    """Return the return from which the environment of a study counts as solved.

    None if the environment declares none, or the metric is not made of returns.
    """
    if metric_of(study.spec.metric).kind not in _OF_RETURNS:
        return None
    return max(_thresholds(_limits(study)), default=None)


def confirmation_bounds(study: OpenStudy, of_search: Bounds) -> Bounds:
    """Return the bounds of the values of the runs that confirm, which may be longer than those of the search.

    Args:
        study: The study.
        of_search: Bounds of the values of the search.
    """
    if metric_of(study.spec.metric).kind != "steps-to":
        return of_search
    return _bounds_of_steps(study.spec, study.spec.confirm_budget)


def constant_return(study: OpenStudy) -> float | None:
    """Return the return that every episode of a study has had, if it is the same and does not solve the environment.

    None if the metric is neither a return nor made from returns.
    """
    if metric_of(study.spec.metric).kind not in (*_OF_RETURNS, "steps-to"):
        return None
    seen = study.storage.episodes.return_extremes(study.episodes_key)
    if seen is None or seen.lowest != seen.highest:
        return None
    return None if any(seen.lowest >= each for each in _thresholds(_limits(study))) else seen.lowest


def _bounds_of_steps(spec: StudySpec, budget: int) -> Bounds:
    return Bounds(0.0, math.inf if spec.env_steps is None else budget)


def _limits(study: OpenStudy) -> list[dict[str, Any]]:
    """Return the limits of the environments of all trials that recorded any."""
    each = (trial.user_attrs.get("configuration", {}).get(LIMITS_KEY) for trial in study.all_trials())
    return [limits for limits in each if limits]


def _thresholds(limits: list[dict[str, Any]]) -> list[float]:
    return [each["reward_threshold"] for each in limits if each.get("reward_threshold") is not None]
