"""Evaluation: returns of an agent without learning, by default without exploration."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.collection.collector import Collector
from agents.contract.agent import Agent, require_built
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import limit_steps
from agents.environments.transforms import check_same_spaces
from agents.errors import ConfigurationError, whole_number

Array = np.ndarray[Any, Any]


@contextlib.contextmanager
def exploring_elsewhere(agent: Agent) -> Generator[None]:
    """Separate the exploration of an evaluation from that of training, within the block."""
    keeps: Any = agent if hasattr(agent, "extra_state") else None
    kept = None if keeps is None else copy.deepcopy(keeps.extra_state())
    agent.restart(None)
    try:
        yield
    finally:
        if keeps is not None:
            keeps.set_extra_state(kept)


@contextlib.contextmanager
def acting_state_kept(actors: Sequence[Any]) -> Generator[None]:
    """Restore, at the end of the block, what greedy actions may change: random streams, extra state, memory.

    Built-in agents change none of them; agents of users may, for example to break ties at random.

    Args:
        actors: Agents, or what acts for the members of a population.
    """
    before = [_acting_state(actor) for actor in actors]
    try:
        yield
    finally:
        for actor, (streams, extra, memory) in zip(actors, before, strict=True):
            for generator, state in zip(_generators(actor), streams, strict=True):
                generator.bit_generator.state = state
            if extra is not None:
                actor.set_extra_state(extra)
            actor.memory = memory


def _acting_state(actor: Any) -> tuple[list[Any], Any, Array | None]:
    extra = copy.deepcopy(actor.extra_state()) if hasattr(actor, "extra_state") else None
    return [generator.bit_generator.state for generator in _generators(actor)], extra, actor.memory


def _generators(actor: Any) -> list[np.random.Generator]:
    """Return the generators of an actor, one for each of its members."""
    streams: Any = actor.rng
    return list(getattr(streams, "generators", None) or [streams])


class Played(NamedTuple):
    """Episodes of an evaluation."""

    returns: Array  # [n_episodes] float64
    n_cut: int  # number of episodes that `max_steps` truncated


def evaluate(
    agent: Agent,
    environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    *,
    n_episodes: int = 100,
    seed: int = 1_000_000,
    explore: bool = False,
    n_envs: int = 10,
    max_steps: int | None = None,
) -> Array:
    """Return the returns of complete episodes of the agent.

    Every environment plays the same number of episodes, so that short episodes are not favoured.

    Args:
        agent: The agent. Its state does not change, except for its exploration stream if `explore` is set.
        environment: The environment: an id, a function that makes one, or a spec. Defaults to that of the agent.
        n_episodes: Number of episodes, >= 1; rounded up to a multiple of `n_envs`.
        seed: Seed of the environments; training does not use the default.
        explore: Whether actions are drawn as in training.
        n_envs: Number of environments stepped in parallel, >= 1; no more than `n_episodes` are made.
        max_steps: Steps after which an episode is truncated, >= 1. Defaults to None: no limit.

    Returns:
        [n_episodes] float64, or a few more after rounding up.

    Raises:
        ConfigurationError: No environment, or a number below 1.
    """
    played = play_episodes(
        agent, environment, n_episodes=n_episodes, seed=seed, explore=explore, n_envs=n_envs, max_steps=max_steps
    )
    assert played is not None  # evaluate() cannot be abandoned
    return played.returns


def play_episodes(
    agent: Agent,
    environment: str | Callable[..., Any] | EnvironmentSpec | None,
    *,
    n_episodes: int,
    seed: int,
    explore: bool,
    n_envs: int,
    max_steps: int | None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Played | None:
    """Play episodes as `evaluate` does; return None if the evaluation was abandoned between two steps.

    Args:
        agent: See `evaluate`, also for the following arguments.
        environment: See above.
        n_episodes: See above.
        seed: See above.
        explore: See above.
        n_envs: See above.
        max_steps: See above.
        abandoned: Called after every step; True abandons the evaluation.

    Raises:
        ConfigurationError: No environment, or a number below 1.
    """
    require_built(agent, "evaluate()")
    spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
    if spec is None:
        raise ConfigurationError(
            "An evaluation needs an environment: the agent was made without one. Pass environment."
        )
    n_episodes = whole_number(1, "n_episodes", n_episodes) or 1
    n_envs = min(whole_number(1, "n_envs", n_envs) or 1, n_episodes)
    max_steps = whole_number(1, "max_steps", max_steps)
    wanted = -(-n_episodes // n_envs)
    agent.refresh()
    apart = exploring_elsewhere(agent) if explore else acting_state_kept([agent])
    collector = Collector(limit_steps(spec, max_steps), n_envs, [seed])
    played: list[list[tuple[float, bool]]] = [[] for _ in range(n_envs)]
    try:
        check_same_spaces(spec.label, collector.environments, agent)
        with apart:
            while min(map(len, played)) < wanted:
                collected = collector.step(agent, explore)
                for error in collected.errors.values():
                    raise error
                for ended in collected.ended:
                    cut = ended.length == max_steps and not collected.transition.terminated[ended.environment]
                    played[ended.environment].append((ended.episode_return, bool(cut)))
                if abandoned():
                    return None
    finally:
        collector.close()
    counted = [episode for episodes in played for episode in episodes[:wanted]]
    return Played(np.array([value for value, _ in counted], np.float64), sum(cut for _, cut in counted))
