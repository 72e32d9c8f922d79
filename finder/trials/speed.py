"""The speed of runs that are trained together, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec

KEPT_STRUCTURES = 4
"""Structures of agents that a process keeps compiled by default (`agents.population.TemplateCache`)."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of runs that one process trains together.

    An environment step of every run takes ``shared_seconds + n * run_seconds`` with n runs.

    Attributes:
        n_runs: Runs that were measured.
        start_seconds: Seconds to build the agents, and of the first update with its compilation.
        shared_seconds: Seconds of an environment step that do not depend on the number of runs; 0 if unknown.
        run_seconds: Seconds of an environment step for each run, with its share of the updates.
        first_update: Environment steps of a run before its first update.
        start_share: Share of these seconds that a step before the first update takes, from 0 to 1.
        run_bytes: Approximate memory of a run with a full buffer; 0 if unknown.
        measured_seconds: Seconds of training that were measured, without `start_seconds`.
        measured_steps: Environment steps of all runs in that time.
        evaluation_seconds: Seconds of an evaluation of one run at most, where studies are judged by them; else 0.
    """

    n_runs: int
    start_seconds: float
    shared_seconds: float
    run_seconds: float
    first_update: int = 0
    start_share: float = 1.0
    run_bytes: int = 0
    measured_seconds: float = 0.0
    measured_steps: int = 0
    evaluation_seconds: float = 0.0

    @property
    def steps_per_second(self) -> float:
        """Environment steps a second over all measured runs."""
        return self.measured_steps / self.measured_seconds if self.measured_seconds else 0.0

    def step_seconds(self, n_runs: float) -> float:
        """Return the seconds of an environment step of each of so many runs."""
        return self.shared_seconds + n_runs * self.run_seconds


def copies_of(agent: AgentSpec) -> int:
    """Return the copies of its environment that share the environment steps of a run; 1 for functions of the user."""
    return 1 if agent.is_own_function else int(getattr(agent.config, "n_envs", 1))


def rollout_steps(agent: AgentSpec) -> int:
    """Return the environment steps of a run between two updates of an agent with rollouts; of others, of one step."""
    return int(getattr(agent.config, "n_steps", 1) * getattr(agent.config, "n_envs", 1))


def steps_before_update(agent: AgentSpec) -> int:
    """Return the environment steps of a run before its first update: a rollout, or those before learning starts."""
    config = agent.config
    rollout = getattr(config, "n_steps", 0) * getattr(config, "n_envs", 1)
    return int(getattr(config, "learning_starts", 0) or rollout)


def latest_first_update(agents: Mapping[str, AgentSpec]) -> int:
    """Return the environment steps of a run after which every one of these agents has begun to learn.

    Args:
        agents: Label -> agent, at least one.
    """
    return max(map(steps_before_update, agents.values()))
