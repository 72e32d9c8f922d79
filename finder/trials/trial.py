"""A trial as data: everything that is needed to run it, and its outcome. `finder.trials.cohort` runs trials."""

from __future__ import annotations

import contextlib
import difflib
import importlib.metadata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from agents.contract.agent import Agent
from agents.contract.registry import built_in_name
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import no_episode_advice
from agents.training.function_trainer import OwnTraining
from agents.training.records import Episode, MetricSummary
from finder.trials.speed import copies_of
from studies.database.records import EpisodeRecord
from studies.spaces.spaces import check_json
from studies.spec.attributes import LEARNED_ATTR, LIMITS_KEY, OBJECTIVES_ATTR, FailureKind
from studies.spec.metrics import metric_of

if TYPE_CHECKING:
    from studies.population_based.population_based import Perturbation

State = Literal["complete", "pruned", "paused", "failed", "interrupted"]

INTERRUPTED = "interrupted"
"""The reason to stop when the whole study is being stopped."""

FELL_BEHIND = "pruned: it fell behind"
"""The reason to stop when the scheduler stops a trial."""

FOR_BUDGET = "pruned: the others could not end within the budget"
"""The reason to stop when a trial is pruned so that others can end within the budget of the search."""

PAUSED = "paused at a rung"
"""The reason to stop when the scheduler pauses a trial, whose state is saved until it is promoted."""


class BudgetSpent(KeyboardInterrupt):
    """The budget of the whole search is spent: running trials stop, and wait in the study."""


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that are like another one which is not among them, the most similar first."""
    names = set(known)
    return [] if name in names else difflib.get_close_matches(name, names, n=2, cutoff=0.7)


def larger_budget(chosen_for: str) -> tuple[str, ...]:
    """Return what enlarges the steps of each run in a budget of a whole search, `minutes` or `total_env_steps`."""
    amounts = {
        "minutes": "more minutes (--minutes)",
        "total_env_steps": "more steps of the whole search (--total-env-steps)",
    }
    return (amounts[chosen_for], "fewer trials") if chosen_for else ()


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """A trial with everything that is needed to run it in any process.

    Attributes:
        number: Number of the trial in the study.
        agent: The agent to train, with all hyperparameters.
        seeds: Distinct seeds; the trial has one run for each.
        env_steps: Budget of each run in environment steps, or None.
        chosen_for: The budget of the whole search for which these steps were chosen (`StudySpec.limit_field`); empty if
            they were given.
        episodes: Budget of each run in episodes, or None.
        report_marks: Environment steps at which a value is reported, the same for every trial of a study. May be
            empty for a budget in episodes, because the number of steps of a run is not known then.
        metric: Name of the metric of the study (`studies.spec.metrics`).
        metrics: Names of all objectives, `metric` first, if the study has several; else empty.
        name: Name of the agent in the study, if it differs from the label of the agent.
        confirms: Number of the trial that is repeated on further seeds; None for a trial of the search.
        epoch: How often the trial was started or resumed, in any process. Checkpoints of the newest epoch are loaded.
        resumed: Whether the trial was trained before and continues.
        promoted_from: Environment steps after which it was paused until now; None if it was not.
        checkpoints: Folder of the checkpoints while the trial runs (`finder.trials.checkpoints`); None for no
            checkpoints.
        checkpoint_seconds: Seconds between checkpoints.
        strategy: The distribution strategy of the agents (`agents.distributed.strategies`).
        callbacks: Factories of the callbacks of each run (`agents.callbacks.callback.make_callbacks`).
        only_modules: Modules that text in the trial may name (`agents.trust.allowed_modules.restriction`); None for
            all.
        why_alone: Why the runs cannot be members of a population, if the reason is not the agent; else empty.
        exchanges: Environment steps at which the trials of a cohort may copy each other, as members of one population
            (`studies.population_based`); none for trials that are trained independently.
        value_steps: The last environment steps of a run that its final value is the mean over; None for the usual last
            part.
        schedule: Pairs of environment steps and hyperparameters that are set there, of the schedule that a trial
            repeats.
        hang_seconds: Time limit for a step of the environments and for an update, after which the trial has failed; 0
            for no limit.
    """

    number: int
    agent: AgentSpec
    seeds: tuple[int, ...]
    env_steps: int | None = None
    chosen_for: str = ""
    episodes: int | None = None
    report_marks: tuple[int, ...] = ()
    metric: str = "return"
    metrics: tuple[str, ...] = ()
    name: str = ""
    confirms: int | None = None
    epoch: int = 1
    resumed: bool = False
    promoted_from: int | None = None
    checkpoints: str | None = None
    checkpoint_seconds: float = 60.0
    hang_seconds: float = 0.0
    strategy: str = "none"
    callbacks: tuple[Any, ...] = ()
    why_alone: str = ""
    exchanges: tuple[int, ...] = ()
    value_steps: int | None = None
    schedule: tuple[tuple[int, dict[str, float]], ...] = ()
    only_modules: str | None = None

    @property
    def label(self) -> str:
        """Name of the agent in the study."""
        return self.name or self.agent.label

    def no_value_message(self, name: str = "", reported: Collection[str] = ()) -> str:
        """Return the error message for a trial that ended without a value, of its metric or of another objective.

        Args:
            name: The objective. Defaults to the metric of the study.
            reported: Names of the numbers that its episodes reported.
        """
        metric = metric_of(name or self.metric)
        if metric.name in reported:
            return f"Some run has no finite value of the metric {metric.name!r}, so the trial has no value."
        if metric.name:
            near = " or ".join(map(repr, similar_names(metric.name, reported)))
            meant = f" Did you mean {near}?" if near else ""
            others = f"{meant} Its episodes reported {', '.join(sorted(reported))}." if reported else ""
            if self.agent.is_own_function:
                return (
                    f"No episode reported the metric {metric.name!r}, so the trial has no value. {self.label} reports "
                    f"it with each episode: run.report(..., custom_metrics={{{metric.name!r}: ...}}).{others}"
                )
            return (
                f"No episode reported the metric {metric.name!r}, so the trial has no value. An environment reports it "
                f"in the info of the last step of an episode, info[{metric.name!r}]; a callback in the custom_metrics "
                f"of the episode.{others}"
            )
        what = "episode with an update" if metric.kind == "loss" else "episode"
        budget = f"{self.env_steps} environment steps" if self.env_steps else f"{self.episodes} episodes"
        message = f"No {what} ended within the budget of a run ({budget}), so the trial has no value."
        if self.agent.is_own_function:
            return (
                f"{message} {self.label} must report each episode: "
                "run.report(episode_return=..., length=..., loss=...)."
            )
        if metric.kind == "loss":
            return f"{message} Losses are recorded with the episodes: give it a larger budget."
        copies, instead = copies_of(self.agent), larger_budget(self.chosen_for)
        advice = no_episode_advice(self.agent.environment, copies, self.env_steps, instead=instead)
        return f"{message} {advice}".rstrip()

    def report_steps(self) -> Iterator[int]:
        """Yield the report marks and the last step; for a budget in episodes, steps that grow by a fifth each time."""
        if self.env_steps is not None:
            yield from (mark for mark in self.report_marks if mark < self.env_steps)
            yield self.env_steps
            return
        step = 200.0
        while True:
            yield round(step)
            step *= 1.2


class Work(NamedTuple):
    """Training of the groups to which the runs of a trial belong, without evaluations.

    Attributes:
        seconds: Its time.
        steps: Environment steps of each run in it.
        steps_of_all: Environment steps of all runs in it.
    """

    seconds: float = 0.0
    steps: int = 0
    steps_of_all: int = 0

    def plus(self, other: Work) -> Work:
        """Return the sum of both."""
        return Work(self.seconds + other.seconds, self.steps + other.steps, self.steps_of_all + other.steps_of_all)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended.

    Attributes:
        state: State of the trial.
        value: Value over seeds; None without one.
        env_steps: Environment steps of each of its runs.
        seed_values: Value of each seed.
        wall_seconds: Duration of the trial.
        work: Training of the groups of its runs.
        reason: Reason why it was pruned, paused or interrupted, or failed; "" if it is complete.
        traceback: Traceback of its error; "" without one.
        objectives: Metric -> seed -> value, for several metrics.
        custom_metrics: Custom metrics of the last part of training.
        failure: Kind of the failure of a failed trial.
        learned: Whether an episode ended after a gradient step; always true for functions, which need not report
            losses.
    """

    state: State
    value: float | None = None
    env_steps: int = 0
    seed_values: dict[int, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    work: Work = field(default_factory=Work)
    reason: str = ""
    traceback: str = ""
    objectives: dict[str, dict[int, float]] = field(default_factory=dict)
    custom_metrics: dict[str, MetricSummary] = field(default_factory=dict)
    failure: FailureKind = "error"
    learned: bool = True


def outcome_attrs(outcome: Outcome, *, was_paused: bool = False) -> dict[str, Any]:
    """Return the attributes of a trial beside its value that its outcome gives it, as JSON values.

    Args:
        outcome: The outcome.
        was_paused: Whether the trial has attributes already, from a pause. Defaults to False.
    """
    attrs: dict[str, Any] = {}
    if outcome.custom_metrics:
        attrs["custom_metrics"] = {name: own._asdict() for name, own in outcome.custom_metrics.items()}
    if outcome.objectives:
        attrs[OBJECTIVES_ATTR] = {
            name: {str(seed): value for seed, value in own.items()} for name, own in outcome.objectives.items()
        }
    if not outcome.learned or was_paused:
        attrs[LEARNED_ATTR] = outcome.learned
    return attrs


def configuration_of(spec: TrialSpec, agent: Agent | OwnTraining, vectorization: str) -> dict[str, Any]:
    """Return everything that is needed to run a trial again, as JSON values.

    Args:
        spec: The trial.
        agent: The agent of the trial, or one of them.
        vectorization: How the environments were stepped; see `EnvironmentSpec.vectorization`.

    Raises:
        StudyError: The configuration of the agent is not serialisable as JSON.
    """
    packages = ("agentfinder", "tensorflow", "keras", "gymnasium", "optuna", "numpy")
    where = spec.agent.environment.described
    described = {**where, "wrappers": list(where["wrappers"])}
    configuration = {
        "agent": spec.agent.label,
        "config": agent.config.to_dict(),
        **_properties_of(spec.agent, agent),
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
    """Return the declared limits of an environment that bound its returns; None where there are none."""
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


def _properties_of(spec: AgentSpec | FunctionSpec, agent: Agent | OwnTraining) -> dict[str, Any]:
    """Return the optimizers of an agent, and what it is."""
    if isinstance(agent, OwnTraining):
        return {"optimizers": {}, "own_training": True, "built_in": False}
    optimizers = {name: agent.optimizer_spec(name).serialised() for name in agent.optimizers}
    return {"optimizers": optimizers, "built_in": built_in_name(spec.agent) is not None}


def episode_record(seed: int, episode: Episode) -> EpisodeRecord:
    """Return the record of an episode for a study; a loss that is not finite becomes None."""
    return EpisodeRecord(
        seed=seed,
        episode=episode.index,
        env_steps=episode.env_steps,
        episode_return=episode.episode_return,
        length=episode.length,
        loss=episode.loss if episode.loss is not None and np.isfinite(episode.loss) else None,
        wall_seconds=episode.wall_seconds,
    )


class TrialListener(Protocol):
    """Receives the events of trials while they run."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        """Called when the agents of a trial are built, with a JSON configuration that can reproduce the trial."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        """Called when all trials have reached a step, with trial -> seed -> value. Returns trial -> reason to stop."""

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> Sequence[Perturbation]:
        """Called at a step of `TrialSpec.exchanges`.

        Populations that exchange members are trained in the process of their study.

        Args:
            env_steps: Environment steps.
            values: Trial -> seed -> value in the interval before the step.
            diverged: Trials that have diverged since the last exchange and have no value.

        Returns:
            The trials that copy others there, with their new hyperparameters.
        """

    def ended(self, number: int, outcome: Outcome) -> None:
        """Called when a trial has ended; the last event of the trial."""
