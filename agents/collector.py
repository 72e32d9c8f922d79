"""The collector steps the environments and is the only place where an episode's return is summed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents import seeding
from agents.agent import Agent
from agents.environments import Environments, EnvironmentSpec
from agents.replay import Transition

Array = np.ndarray[Any, Any]


class EndedEpisode(NamedTuple):
    """Return and length of an episode that has just ended in one copy of the environment."""

    environment: int
    episode_return: float
    length: int


class Collector:
    """Owns N copies of an environment and where each of them stands.

    Args:
        environment: What to make.
        n_envs: Copies.
        seed: Seed of the environments; each copy gets its own from it.
    """

    def __init__(self, environment: EnvironmentSpec, n_envs: int, seed: int) -> None:
        self.environments = Environments(environment, n_envs)
        self.n_envs = n_envs
        self._seeds = seeding.integers(seed, "environment", n_envs)
        self._resets = 0
        self._returns = np.zeros(n_envs, np.float64)
        self._lengths = np.zeros(n_envs, np.int64)
        self._observations: Array | None = None

    @property
    def started(self) -> bool:
        """Whether the first episodes have begun."""
        return self._observations is not None

    def start(self) -> None:
        """Begins the first episodes."""
        self._observations = self.environments.reset(self._seeds)

    def step(self, agent: Agent, explore: bool = True) -> tuple[Transition, list[EndedEpisode]]:
        """Lets the agent act once in every copy."""
        if self._observations is None:
            self.start()
        observations: Array = self._observations  # type: ignore[assignment]
        actions = agent.act(observations, explore)
        step = self.environments.step(actions)
        self._returns += step.rewards
        self._lengths += 1
        ended = []
        for i in np.flatnonzero(step.terminated | step.truncated):
            ended.append(EndedEpisode(int(i), float(self._returns[i]), int(self._lengths[i])))
            self._returns[i] = 0.0
            self._lengths[i] = 0
        self._observations = step.observations
        rewards = step.rewards.astype(np.float32)  # only now: the sums above stay as exact as the environments are
        transition = Transition(observations, actions, rewards, step.successors, step.terminated, step.truncated)
        return transition, ended

    def close(self) -> None:
        """Closes the environments."""
        self.environments.close()

    def get_state(self) -> dict[str, Any]:
        """Where the episodes stand. ``"environments"`` is None where the environments cannot be copied."""
        return {
            "environments": self.environments.get_state() if self.started else None,
            "started": self.started,
            "observations": None if self._observations is None else self._observations.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "resets": self._resets,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on where `get_state` was called.

        Environments that could not be copied begin new episodes instead, with seeds that no earlier episode had.
        """
        if not state["started"]:
            self._observations = None
            return
        if state["environments"] is not None:
            self.environments.set_state(state["environments"])
            self._resets = state["resets"]
            self._observations = state["observations"].copy()
            self._returns = state["returns"].copy()
            self._lengths = state["lengths"].copy()
            return
        self._resets = state["resets"] + 1
        shift = np.random.SeedSequence(self._seeds, spawn_key=(self._resets,))
        self._observations = self.environments.reset([int(word) >> 1 for word in shift.generate_state(self.n_envs)])
        self._returns[:] = 0.0
        self._lengths[:] = 0
