"""How good an agent is, without exploring and without learning."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from agents.collection.collector import Collector
from agents.contract.agent import Agent
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import cut_after
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


@contextlib.contextmanager
def exploring_elsewhere(agent: Agent) -> Generator[None]:
    """For as long as the block lasts, an agent explores in other copies of the environment than it is trained in."""
    keeps: Any = agent if hasattr(agent, "extra_state") else None
    kept = None if keeps is None else copy.deepcopy(keeps.extra_state())
    agent.restart(None)
    try:
        yield
    finally:
        if keeps is not None:
            keeps.set_extra_state(kept)


class Played(NamedTuple):
    """Episodes that were played."""

    returns: Array  # [n_episodes] float64
    n_cut: int  # episodes among them that ended because of `max_steps`, and not by themselves


def evaluate(
    agent: Agent,
    environment: EnvironmentSpec | None = None,
    *,
    n_episodes: int = 100,
    seed: int = 1_000_000,
    explore: bool = False,
    n_envs: int = 10,
    max_steps: int | None = None,
) -> Array:
    """Return of whole episodes, played by the agent as it is.

    Every copy of the environment plays the same number of episodes, so that short episodes are not favoured.

    Args:
        agent: Who plays. Its state does not change but for its exploration stream when `explore` is set.
        environment: Where. Defaults to what the agent was made for.
        n_episodes: How many, >= 1; rounded up to a multiple of `n_envs`.
        seed: Seed of the environments; the default is one that training does not use.
        explore: Whether actions are drawn as in training.
        n_envs: Copies that are stepped together, at most `n_episodes`.
        max_steps: Steps after which an episode is cut off, >= 1. Defaults to None: they end by themselves.

    Returns:
        [n_episodes] float64, or a few more where it was rounded up.

    Raises:
        ConfigurationError: No environment, or no episodes.
    """
    played = play_episodes(
        agent, environment, n_episodes=n_episodes, seed=seed, explore=explore, n_envs=n_envs, max_steps=max_steps
    )
    assert played is not None  # nobody could abandon it
    return played.returns


def play_episodes(
    agent: Agent,
    environment: EnvironmentSpec | None,
    *,
    n_episodes: int,
    seed: int,
    explore: bool,
    n_envs: int,
    max_steps: int | None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Played | None:
    """Play episodes as `evaluate` does; None where it was abandoned between two steps.

    Args:
        agent: See `evaluate`, as for all that follow.
        environment: As above.
        n_episodes: As above.
        seed: As above.
        explore: As above.
        n_envs: As above.
        max_steps: As above.
        abandoned: Asked after every step whether nobody wants the result any more.

    Raises:
        ConfigurationError: No environment, or no episodes.
    """
    spec = environment or agent.environment
    if spec is None:
        raise ConfigurationError("Say where to evaluate: the agent was made without an environment.")
    for name, number in (("n_episodes", n_episodes), ("max_steps", max_steps)):
        if number is not None and number < 1:
            raise ConfigurationError(f"{name} must be >= 1, got {number}.")
    n_envs = min(n_envs, n_episodes)
    wanted = -(-n_episodes // n_envs)
    agent.refresh()
    exploring = exploring_elsewhere(agent) if explore else contextlib.nullcontext()
    collector = Collector(cut_after(spec, max_steps), n_envs, [seed])
    played: list[list[tuple[float, bool]]] = [[] for _ in range(n_envs)]
    try:
        with exploring:
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
