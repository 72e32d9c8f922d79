"""Bounds of the returns of a study, from its recorded episodes and the limits of its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from studies.spec.attributes import LIMITS_KEY
from studies.statistics.bounds import NO_BOUNDS, Bounds, bounds_of

if TYPE_CHECKING:
    from studies.study.study import OpenStudy


def return_bounds(study: OpenStudy) -> Bounds:
    """Return the bounds of the episode returns of a study; `NO_BOUNDS` if its metric is the loss."""
    if study.spec.metric != "return":
        return NO_BOUNDS
    seen = study.storage.episodes.return_extremes(study.episodes_key)
    if seen is None:
        return NO_BOUNDS
    limits = [_limits(trial.user_attrs.get("configuration", {})) for trial in study.all_trials()]
    known = [each for each in limits if each]
    steps: list[Any] = [each.get("max_episode_steps") for each in known]
    thresholds: list[float] = [each["reward_threshold"] for each in known if each.get("reward_threshold") is not None]
    step_limit = max(steps) if steps and None not in steps else None
    return bounds_of(seen, step_limit, max(thresholds) if thresholds else None)


def _limits(configuration: dict[str, Any]) -> dict[str, Any]:
    limits: dict[str, Any] = configuration.get(LIMITS_KEY) or {}
    return limits
