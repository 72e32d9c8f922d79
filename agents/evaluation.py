"""How good an agent is, without exploring and without learning."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator
from typing import Any

import numpy as np

from agents.agent import Agent
from agents.collector import Collector
from agents.environments import EnvironmentSpec
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


def evaluate(
    agent: Agent,
    environment: EnvironmentSpec | None = None,
    *,
    n_episodes: int = 100,
    seed: int = 1_000_000,
    explore: bool = False,
    n_envs: int = 10,
) -> Array:
    """Returns of whole episodes, played by the agent as it is.

    Every copy of the environment plays the same number of episodes, so that short episodes are not favoured.

    Args:
        agent: Who plays. Its state does not change but for its exploration stream when `explore` is set.
        environment: Where. Defaults to what the agent was made for.
        n_episodes: How many, >= 1; rounded up to a multiple of `n_envs`.
        seed: Seed of the environments; the default is one that training does not use.
        explore: Whether actions are drawn as in training.
        n_envs: Copies that are stepped together, at most `n_episodes`.

    Returns:
        [n_episodes] float64, or a few more where it was rounded up.

    Raises:
        ConfigurationError: No environment, or no episodes.
    """
    spec = environment or agent.environment
    if spec is None:
        raise ConfigurationError("Say where to evaluate: the agent was made without an environment.")
    if n_episodes < 1:
        raise ConfigurationError(f"n_episodes must be >= 1, got {n_episodes}.")
    n_envs = min(n_envs, n_episodes)
    wanted = -(-n_episodes // n_envs)
    agent.refresh()
    exploring = exploring_elsewhere(agent) if explore else contextlib.nullcontext()
    collector = Collector(spec, n_envs, [seed])
    played: list[list[float]] = [[] for _ in range(n_envs)]
    try:
        with exploring:
            while min(map(len, played)) < wanted:
                collected = collector.step(agent, explore)
                for error in collected.errors.values():
                    raise error
                for ended in collected.ended:
                    played[ended.environment].append(ended.episode_return)
    finally:
        collector.close()
    return np.array([returns[:wanted] for returns in played]).ravel()
