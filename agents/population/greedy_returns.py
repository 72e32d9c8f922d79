"""Returns of greedy episodes of all members of a population, or of a single agent, apart from their training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.collection.collector import Collector
from agents.contract.agent import Agent
from agents.environments import EnvironmentSpec
from agents.errors import check_at_least
from agents.population.population import Population
from agents.training.evaluation import acting_state_kept
from agents.training.global_generators import GlobalGenerators

Array = np.ndarray[Any, Any]

_IN_PROCESSES = ("async", "ray", "ray-subproc")
"""Vectorizations with a process or an actor for some environments."""


class GreedyReturns(NamedTuple):
    """Result of `greedy_returns`."""

    returns: dict[int, Array]  # position of a member -> returns of its episodes, [n_episodes] float64
    errors: dict[int, Exception]  # position of a member -> error of its environments; it has no returns
    n_steps: int  # steps of all environments together


def greedy_returns(
    learner: Population | Agent,
    environment: EnvironmentSpec,
    seeds: Sequence[int],
    *,
    n_episodes: int = 10,
    ended: Callable[[], bool] = lambda: False,
) -> GreedyReturns:
    """Play complete episodes with every member, without exploration, in new environments.

    The training does not change: its environments, episodes, random numbers, normalizers and memories stay as they are.
    A member has the same returns as a single agent with its weights and seed.

    Args:
        learner: A population, or a single agent.
        environment: The environment. It needs a time limit, as greedy agents may run in a circle.
        seeds: A seed of the environments for each member.
        n_episodes: Episodes of each member, >= 1, played at the same time, each in its own environment. Environments in
            processes are as many as those of the training instead, and each plays the same number of episodes, so that
            there may be a few more.
        ended: Called after every step of all environments; True ends the evaluation early, without returns.

    Raises:
        MembersFailedError: The networks of some members of a population returned NaN or infinity.
        NonFiniteError: Those of a single agent did.
    """
    check_at_least(1, n_episodes=n_episodes)
    n_envs = n_environments(environment, learner, n_episodes)
    wanted, n_steps = -(-n_episodes // n_envs), 0
    played: list[list[list[float]]] = [[[] for _ in range(n_envs)] for _ in seeds]  # [P][N] lists of returns
    errors: dict[int, Exception] = {}
    collector = Collector(environment, n_envs, seeds)
    try:
        with GlobalGenerators(seeds[0]).installed(), _apart(learner, n_envs):
            while any(min(map(len, own)) < wanted for position, own in enumerate(played) if position not in errors):
                step = collector.step(learner, explore=False)
                n_steps += 1
                errors = {**step.errors, **errors}
                for episode in step.ended:
                    played[episode.position][episode.environment].append(episode.episode_return)
                if ended():
                    return GreedyReturns({}, errors, n_steps)
    finally:
        collector.close()
    returns = {
        position: np.array([value for values in own for value in values[:wanted]], np.float64)
        for position, own in enumerate(played)
        if position not in errors
    }
    return GreedyReturns(returns, errors, n_steps)


def n_environments(environment: EnvironmentSpec, learner: Population | Agent, n_episodes: int) -> int:
    """Return the environments of each member in an evaluation; see `greedy_returns`."""
    return min(n_episodes, learner.config.n_envs) if environment.vectorization in _IN_PROCESSES else n_episodes


@contextlib.contextmanager
def _apart(learner: Population | Agent, n_envs: int) -> Iterator[None]:
    """Act in other environments within the block, `n_envs` for each member; nothing of the training changes."""
    actors: Sequence[Any] = learner.actors if isinstance(learner, Population) else [learner]
    rows = learner.rows_of_members(n_envs) if isinstance(learner, Population) else contextlib.nullcontext()
    with acting_state_kept(actors), rows:
        yield
