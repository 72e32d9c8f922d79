"""Time limits of environments, lengths of episodes, and limits of evaluations where the environment has none."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gymnasium.wrappers import TimeLimit

from agents.environments.spec import EnvironmentSpec

LEAST_LIMIT = 1_000
"""Smallest default limit of an evaluation's episodes, in steps."""

TIMES_THE_LONGEST = 10
"""Default limit of an evaluation's episodes, as a multiple of the longest training episode."""

_MORE_STEPS = 4
"""Multiple of the environment steps of a run to advise where episodes are longer, by an unknown number of steps."""


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


class EpisodeLength(NamedTuple):
    """The length of the episodes of an environment, as far as it was seen.

    Attributes:
        steps: Steps of the longest episode.
        ended: Whether an episode ended; if not, the steps are those after which no more were made.
    """

    steps: int
    ended: bool


def random_episodes(
    environment: EnvironmentSpec,
    *,
    n_episodes: int = 3,
    most_steps: int = 100_000,
    most_seconds: float = 5.0,
    clock: Callable[[], float] = time.monotonic,
) -> EpisodeLength:
    """Return the length of the longest of a few episodes with random actions.

    Args:
        environment: The environment, which is made and closed again.
        n_episodes: Episodes to play. Defaults to 3.
        most_steps: Steps of all of them after which no more are made. Defaults to 100,000.
        most_seconds: Seconds after which no more are made. Defaults to 5.
        clock: Returns the time in seconds.

    Raises:
        Exception: Any error of the environment.
    """
    made = environment.make_plain()
    try:
        made.action_space.seed(0)
        began, left = clock(), most_steps
        longest, ended = 0, False
        for seed in range(n_episodes):
            made.reset(seed=seed)
            length, is_over = 0, False
            while not is_over and left and clock() - began < most_seconds:
                _, _, terminated, truncated, _ = made.step(made.action_space.sample())
                length, left, is_over = length + 1, left - 1, bool(terminated or truncated)
            longest, ended = max(longest, length), ended or is_over
        return EpisodeLength(longest, ended)
    finally:
        made.close()


def episodes_or_none(environment: EnvironmentSpec) -> EpisodeLength | None:
    """Return the length of a few random episodes (`random_episodes`); None after an error."""
    try:
        return random_episodes(environment)
    except Exception:  # noqa: BLE001 - an environment may raise anything; the trials will record it
        return None


def no_episode_advice(
    environment: EnvironmentSpec, n_copies: int = 1, env_steps: int | None = None, *, instead: Sequence[str] = ()
) -> str:
    """Return why no episode has ended in a run, and what to change: sentences for the user.

    Args:
        environment: The environment.
        n_copies: Its copies, which share the environment steps of the run. Defaults to 1.
        env_steps: Environment steps of the run. Defaults to None: the budget was in episodes.
        instead: What to give in place of more environment steps, if these were chosen for a larger budget. Defaults to
            (): they were given.
    """
    limit = time_limit(environment)
    own_limit = "time limit (--max-episode-steps N; in Python EnvironmentSpec(..., max_episode_steps=N))"
    if env_steps is None:
        return "" if limit is not None else f"Give episodes that never end a {own_limit}."
    of_each = max(1, env_steps // n_copies)
    made = (
        f"{n_copies} copies of {environment.label} made {of_each:,} steps each"
        if n_copies > 1
        else f"{environment.label} made {of_each:,} steps"
    )
    enough = 0 if limit is None else n_copies * limit
    steps = enough if enough > env_steps else _MORE_STEPS * env_steps
    longer = f"{'more, such as ' if limit is None else ''}--env-steps {steps} (env_steps={steps})"
    ways = list(instead) or [longer]
    if instead and limit is not None:
        ways.append(f"a smaller {own_limit}")
    if n_copies > 1 and (limit is None or env_steps >= limit):
        ways.append("n_envs=1 (--set n_envs=1)")
    advice = f"give {_alternatives(ways)}"
    if limit is not None:
        return f"{made}, and an episode may have {limit:,}: {advice}."
    return f"{made}, and episodes are longer: {advice}. If episodes never end, give a {own_limit}."


def _alternatives(ways: list[str]) -> str:
    """Return `a`, `a, or b` or `a, b, or c`."""
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])}, or {ways[-1]}"
