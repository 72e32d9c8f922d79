"""A trial as data: what is needed to run it anywhere, and how it ended. `finder.trials.cohort` runs it."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import no_limit_hint
from agents.training.function_trainer import OwnTraining
from agents.training.records import Episode, MetricSummary
from finder.trials.metric import Metric
from studies.database.records import EpisodeRecord
from studies.spec.attributes import LIMITS_KEY
from studies.spec.spaces import check_json

State = Literal["complete", "pruned", "failed", "interrupted"]

INTERRUPTED = "interrupted"
"""The reason to stop when the whole study is being stopped."""

FELL_BEHIND = "pruned: it fell behind"
"""The reason to stop when the pruner says so."""


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """Everything that is needed to run a trial anywhere.

    Attributes:
        number: Its number in the study.
        agent: What is trained, with all hyperparameters.
        seeds: A run for each; distinct.
        env_steps: Budget of each run in environment steps, or None.
        episodes: Budget of each run in episodes, or None.
        report_marks: Environment steps at which a value is reported, the same for every trial of a study; with a
            budget in episodes nobody knows how many steps a run will take, and they may be left empty.
        metric: What is reported: the mean return of episodes, or the mean loss.
        name: What the study calls the agent, where it is not the agent's own label.
        confirms: The trial that it runs again on further seeds, None for a trial of the search.
        epoch: How often it was begun or resumed, by whichever process: checkpoints of the newest are the ones to load.
        resumed: Whether it was trained before, and continues.
        checkpoints: The folder in which it is kept while it runs (`finder.trials.checkpoints`), None for nowhere.
        checkpoint_seconds: How often it is kept there.
        strategy: On how many devices its agents learn (`agents.distributed.strategies`).
        callbacks: What makes the callbacks of each of its runs (`agents.callbacks.callback.make_callbacks`).
        only_modules: What text may name in it (`agents.trust.allowed_modules.restriction`); None for anything.
        why_alone: Why its runs cannot be members of a population, where that is not for the agent to say.
        hang_seconds: How long a step of its environments, or an update, may take before it has failed; 0 for without
            limit.
    """

    number: int
    agent: AgentSpec
    seeds: tuple[int, ...]
    env_steps: int | None = None
    episodes: int | None = None
    report_marks: tuple[int, ...] = ()
    metric: Metric = "return"
    name: str = ""
    confirms: int | None = None
    epoch: int = 1
    resumed: bool = False
    checkpoints: str | None = None
    checkpoint_seconds: float = 60.0
    hang_seconds: float = 0.0
    strategy: str = "none"
    callbacks: tuple[Any, ...] = ()
    why_alone: str = ""
    only_modules: str | None = None

    @property
    def label(self) -> str:
        """What the study calls the agent."""
        return self.name or self.agent.label

    def nothing_to_judge(self) -> str:
        """Why it has no value at its end."""
        what = "episode" if self.metric == "return" else "update"
        budget = f"{self.env_steps} environment steps" if self.env_steps else f"{self.episodes} episodes"
        told = f"No {what} ended within the budget of a run ({budget}): there is nothing to judge it by."
        if isinstance(self.agent, FunctionSpec):
            return (
                f"{told} {self.label} must tell of each episode: run.report(episode_return=..., length=..., loss=...)."
            )
        hint = no_limit_hint(self.agent.environment) if what == "episode" else ""
        return f"{told} {hint}, or a larger budget." if hint else f"{told} Give it a larger budget."

    def report_steps(self) -> Iterator[int]:
        """The marks and the end; with a budget in episodes, few steps: each is a fifth more than the one before."""
        if self.env_steps is not None:
            yield from (mark for mark in self.report_marks if mark < self.env_steps)
            yield self.env_steps
            return
        step = 200.0
        while True:
            yield round(step)
            step *= 1.2


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended."""

    state: State
    value: float | None = None
    env_steps: int = 0
    seed_values: dict[int, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    reason: str = ""
    traceback: str = ""
    custom_metrics: dict[str, MetricSummary] = field(default_factory=dict)  # of the last part of training
    diverged: bool = False  # it failed because of what it tried, not because something is broken
    learned: bool = (
        True  # an episode ended after a gradient step, or nobody can know (functions need not tell of losses)
    )


def configuration_of(spec: TrialSpec, agent: Agent | OwnTraining, vectorization: str) -> dict[str, Any]:
    """Everything that is needed to run a trial again, as JSON values.

    Args:
        spec: The trial.
        agent: Its agent, or one of them.
        vectorization: How its environments were stepped; see `EnvironmentSpec.vectorization`.

    Raises:
        StudyError: The agent's configuration holds something that is not JSON.
    """
    packages = ("agentfinder", "tensorflow", "keras", "gymnasium", "optuna", "numpy")
    where = spec.agent.environment.described
    described = {**where, "wrappers": list(where["wrappers"])}
    configuration = {
        "agent": spec.agent.label,
        "config": agent.config.to_dict(),
        **_optimizers_of(agent),
        **described,
        LIMITS_KEY: limits_of(spec.agent.environment),
        "vectorization": vectorization,
        "strategy": spec.strategy,
        "seeds": list(spec.seeds),
        "env_steps": spec.env_steps,
        "episodes": spec.episodes,
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
    check_json(configuration)
    return configuration


def limits_of(environment: EnvironmentSpec) -> dict[str, Any]:
    """What is declared of an environment that bounds its returns; None where nothing is."""
    declared = None
    if isinstance(environment.id, str):
        with contextlib.suppress(gym.error.Error):
            declared = gym.spec(environment.id.rpartition(":")[2])
    given = environment.max_episode_steps or environment.kwargs.get("max_episode_steps")
    if declared is None:
        return {"max_episode_steps": given, "reward_threshold": None}
    return {
        "max_episode_steps": declared.max_episode_steps if given is None else given,
        # Wrappers may change rewards.
        "reward_threshold": None if environment.wrappers else declared.reward_threshold,
    }


def _optimizers_of(agent: Agent | OwnTraining) -> dict[str, Any]:
    if isinstance(agent, OwnTraining):
        return {"optimizers": {}, "own_training": True}
    return {"optimizers": {name: agent.optimizer_spec(name).serialised() for name in agent.optimizers}}


def episode_record(seed: int, episode: Episode) -> EpisodeRecord:
    """An episode as studies keep it; a loss that is not finite is none."""
    return EpisodeRecord(
        seed=seed,
        episode=episode.index,
        env_steps=episode.env_steps,
        episode_return=episode.episode_return,
        length=episode.length,
        loss=episode.loss if episode.loss is not None and np.isfinite(episode.loss) else None,
        wall_seconds=episode.wall_seconds,
    )
