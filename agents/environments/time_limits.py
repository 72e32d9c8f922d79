"""How long an episode may be, and what to say of environments where it may be for ever."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from gymnasium.wrappers import TimeLimit

from agents.environments.spec import EnvironmentSpec

LEAST_LIMIT = 1_000
"""Steps that an episode of an evaluation always has, where nobody says otherwise."""

TIMES_THE_LONGEST = 10
"""An episode of an evaluation may be so much longer than those of training."""


def time_limit(environment: EnvironmentSpec) -> int | None:
    """Return the steps after which an environment truncates its episodes, None where Gymnasium knows of no limit.

    Args:
        environment: The environment; it is made, and closed again.

    Raises:
        ConfigurationError: It cannot be made.
    """
    if environment.max_episode_steps is not None:
        return environment.max_episode_steps
    made = environment.make_plain()
    try:
        return made.spec.max_episode_steps if made.spec is not None else None
    finally:
        made.close()


def limit_without_one(lengths: Iterable[float]) -> int:
    """Return the steps after which episodes of an evaluation are cut where the environment has no time limit.

    An agent that has learned to run in a circle would otherwise be evaluated for ever.

    Args:
        lengths: How long episodes of training were.
    """
    return max(LEAST_LIMIT, round(TIMES_THE_LONGEST * max(lengths, default=0)))


def cut_after(environment: EnvironmentSpec, max_steps: int | None) -> EnvironmentSpec:
    """Return the environment with a further limit around all its wrappers, counted in the agent's own steps.

    Copies that are stepped together in compiled code have no wrappers: they are stepped one by one instead.
    """
    if max_steps is None:
        return environment
    limited = functools.partial(TimeLimit, max_episode_steps=max_steps)
    vectorization = "sync" if environment.vectorization in ("native", "envpool") else environment.vectorization
    return replace(environment, wrappers=(*environment.wrappers, limited), vectorization=vectorization)


def no_limit_hint(environment: EnvironmentSpec) -> str:
    """Return what to do where no episode has ended; empty where the environment has a time limit."""
    if time_limit(environment) is not None:
        return ""
    return f"{environment.label} has no time limit: give it one with --max-episode-steps N"
