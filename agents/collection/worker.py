"""The worker of a collector process: it acts with a copy of the agent in its share of the environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.collection.collector import Collector, EndedEpisode
from agents.contract.restoring import restoring
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.environments.vector.vector_env import as_bytes
from agents.errors import portable
from agents.trust.signatures import from_own_bytes

Array = np.ndarray[Any, Any]
Rows = Mapping[str, Array]
"""The fields of transitions, each [T, N, ...]."""

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]
"""Name -> shape and dtype."""


@dataclass(frozen=True)
class Task:
    """The task of a collector process.

    Attributes:
        index: Index of the process in the pool.
        copies: Range of its environments.
        n_envs: Number of environments in all processes.
        agent: The agent that acts.
        state: State of the agent.
        environment: The environment to make.
        seed: Seed of the run.
        interface: The converter between environment and agent, which has its spaces.
        life: Number of earlier processes with this index.
        calls: Earlier calls of environments' methods, with arguments; the newest call of each method.
    """

    index: int
    copies: range
    n_envs: int
    agent: AgentSpec
    state: Mapping[str, Any]
    environment: EnvironmentSpec
    seed: int
    interface: Interface
    life: int = 0
    calls: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


class EnvironmentInfo(NamedTuple):
    """Spaces and vectorization of the environments of a process."""

    observation_space: spaces.Box
    action_space: spaces.Discrete | spaces.Box
    kind: str


class StepsReport(NamedTuple):
    """Report of the steps of a process, besides their transitions."""

    n_steps: int  # fewer than requested if an environment failed
    ended: list[tuple[int, EndedEpisode]]  # step, episode
    errors: list[tuple[int, Exception]]  # step, error


class CollectorWorker:
    """A copy of the agent and its environments.

    Args:
        task: The task of the process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        with restoring():
            self._agent = task.agent.build(task.seed, interface=task.interface)
        self._agent.set_state(task.state)
        self._agent.rng = seeding.generator(task.seed, f"exploration of collector {task.index}, life {task.life}")
        self._collector = Collector(task.environment, task.n_envs, [task.seed], copies=task.copies, life=task.life)
        for method, arguments in task.calls.items():
            self.call(method, arguments)

    def environment_info(self) -> EnvironmentInfo:
        """Return the spaces and the vectorization of its environments."""
        environments = self._collector.environments
        return EnvironmentInfo(environments.observation_space, environments.action_space, environments.kind)

    def collect(self, n_steps: int, acting: Sequence[Array], rows: Rows) -> StepsReport:
        """Make steps with these weights.

        Args:
            n_steps: Steps per environment.
            acting: The learner's `acting_state`.
            rows: Arrays for the transitions, [>= n_steps, n, ...].
        """
        self._agent.set_acting_state(acting)
        ended: list[tuple[int, EndedEpisode]] = []
        for t in range(n_steps):
            collected = self._collector.step(self._agent, self._agent.config.explore)
            self._agent.advance(self._task.n_envs)  # schedules count the steps of all processes
            for name, values in collected.transition._asdict().items():
                rows[name][t] = values
            for episode in collected.ended:
                there = self._task.copies[episode.environment]
                ended.append((t, episode._replace(environment=there)))
            if collected.errors:
                return StepsReport(t + 1, ended, [(t, portable(error)) for error in collected.errors.values()])
        return StepsReport(n_steps, ended, [])

    def collected(self, n_steps: int, acting: Sequence[Array]) -> tuple[Rows, StepsReport]:
        """Make steps with these weights; return the transitions [n_steps, n, ...] and the report."""
        shapes = rows_of(self._agent, len(self._task.copies))
        rows = {name: np.zeros((n_steps, *shape), dtype) for name, (shape, dtype) in shapes.items()}
        report = self.collect(n_steps, acting, rows)
        return {name: values[: report.n_steps] for name, values in rows.items()}, report

    def call(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call a method of its environments."""
        return self._collector.call(method, arguments)

    def get_state(self, environments: bool) -> dict[str, Any]:
        """Return the state of episodes and exploration; the weights belong to the learner."""
        agent = {name: part for name, part in self._agent.get_state().items() if name not in _OF_THE_LEARNER}
        collector = self._collector.get_state(environments=environments)
        # Pickled in this process, which has the classes of the user's script.
        collector["environments"] = as_bytes(collector["environments"])
        return {"agent": agent, "collector": collector}

    def set_state(self, state: Mapping[str, Any], learner: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`."""
        self._agent.set_state({**learner, **state["agent"]})
        made = state["collector"]["environments"]
        copied = None if made is None else from_own_bytes(made)
        self._collector.set_state({**state["collector"], "environments": copied})
        if state["collector"]["started"] and copied is None:  # new episodes begin
            self._agent.restart(None)

    def close(self) -> None:
        """Close the environments."""
        self._collector.close()


_OF_THE_LEARNER = ("networks", "optimizers")


def rows_of(agent: Any, n: int) -> Shapes:
    """Return the shapes of one step of n sub-environments."""
    observation, action = agent.observation_space, agent.action_space
    shape = (observation.shape[0] + agent.memory_size,) if agent.memory_size else observation.shape
    observations = ((n, *shape), observation.dtype)
    return {
        "observations": observations,
        "actions": ((n, *action.shape), action.dtype),
        "rewards": ((n,), np.float32),
        "next_observations": observations,
        "terminated": ((n,), np.bool_),
        "truncated": ((n,), np.bool_),
    }
