"""Time limits of environments, and limits of evaluations where the environment has none."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gymnasium.wrappers import TimeLimit

from agents.environments.spec import EnvironmentSpec

LEAST_LIMIT = 1_000
"""Smallest default limit of an evaluation's episodes, in steps."""

TIMES_THE_LONGEST = 10
"""Default limit of an evaluation's episodes, as a multiple of the longest training episode."""


def time_limit(environment: EnvironmentSpec) -> int | None:
    """Return the steps after which an environment truncates its episodes, None if Gymnasium knows no limit.

    Args:
        environment: The environment, which is made and closed again.

    Raises:
        ConfigurationError: The environment cannot be made.
    """
    if environment.max_episode_steps is not None:
        return environment.max_episode_steps
    made = environment.make_plain()
    try:
        known = [made.spec.max_episode_steps if made.spec is not None else None, *_limits_in(made)]
        return min((limit for limit in known if limit is not None), default=None)
    finally:
        made.close()


def _limits_in(made: Any) -> Iterator[int | None]:
    """Yield the limits of the wrappers of an environment; classes and functions have no registration with one."""
    while made is not None:
        yield made._max_episode_steps if isinstance(made, TimeLimit) else None
        made = getattr(made, "env", None)


def limit_without_one(lengths: Iterable[float]) -> int:
    """Return the step limit of evaluation episodes for an environment without a time limit.

    Without a limit, the evaluation of an agent that runs in a circle would never end.

    Args:
        lengths: Lengths of training episodes, in steps.
    """
    return max(LEAST_LIMIT, round(TIMES_THE_LONGEST * max(lengths, default=0)))


def limit_steps(environment: EnvironmentSpec, max_steps: int | None) -> EnvironmentSpec:
    """Return the environment with a further limit around all its wrappers, counted in steps of the agent.

    Native and EnvPool vector environments have no wrappers; copies are stepped one by one instead.
    """
    if max_steps is None:
        return environment
    limited = functools.partial(TimeLimit, max_episode_steps=max_steps)
    vectorization = "sync" if environment.vectorization in ("native", "envpool") else environment.vectorization
    return replace(environment, wrappers=(*environment.wrappers, limited), vectorization=vectorization)


def no_limit_hint(environment: EnvironmentSpec) -> str:
    """Return advice for a run in which no episode has ended; empty where the environment has a time limit."""
    if time_limit(environment) is not None:
        return ""
    limit = "--max-episode-steps N; in Python EnvironmentSpec(..., max_episode_steps=N)"
    return f"{environment.label} has no time limit: give it one ({limit})"
