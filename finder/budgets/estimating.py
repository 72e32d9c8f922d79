"""Makes the plan of a search: measures its speed on this machine, and estimates its time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.backend.cores import cores
from agents.backend.memory import free_memory
from agents.environments.time_limits import EpisodeLength
from agents.errors import ConfigurationError
from finder.budgets.cost import Costs
from finder.budgets.measuring import measure, measure_episodes
from finder.budgets.plan_numbers import estimated_time, expected_steps, memory_of, most_steps, rungs_of
from finder.budgets.search_plan import SearchPlan
from finder.executors.executor import Executor
from finder.trials.speed import Speed
from finder.trials.trial import TrialSpec
from studies.adapters.expected_pruning import expected_courses
from studies.spaces.conditions import existing
from studies.spaces.spaces import Fixed, extremes
from studies.spec.spec import StudySpec
from studies.words import counted

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec

AgentOf = Callable[[Mapping[str, Any], str], "AgentSpec"]
"""Returns the agent with the parameters of a trial, given the label of the agent of trials that name none."""

ONE_FOR_EACH = 1_000_000
"""Structures of a search whose trials have one of their own each: more than there are trials (`Costs.of_study`)."""

_LONG = 10_000_000
"""Environment steps of measured runs, which are stopped after seconds."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A search with its measured costs.

    Attributes:
        costs: The costs of its trials.
        sentences: How the speed was measured, a sentence for each agent.
    """

    costs: Costs
    sentences: tuple[str, ...]


def measured_search(spec: StudySpec, agent_of: AgentOf, executor: Executor, why_alone: str = "") -> Measured:
    """Measure the speed of the trials of a search, on its executor, for a few seconds.

    Args:
        spec: The study; its budget is not used.
        agent_of: Returns the agent of a trial.
        executor: The executor.
        why_alone: Why no run can be a member of a population; empty if runs can.

    Raises:
        ConfigurationError: A run failed.
    """
    trials = trials_to_measure(spec, agent_of, executor, why_alone)
    here = executor.n_processes == 0
    is_ray = spec.executor == "ray"
    speeds = measure(
        trials[:1] if is_ray else trials,
        n_processes=max(1, executor.n_processes),
        own_processes=not here and not is_ray,
        together=executor.trains_together,
    )
    costs = Costs(
        speeds=speeds,
        n_processes=max(1, executor.n_processes),
        n_cores=executor.n_processes if is_ray else cores(),
        together=executor.trains_together,
        own_processes=not here,
        n_structures=_n_structures(spec, agent_of),
    )
    return Measured(costs=costs, sentences=tuple(_sentence(label, speed) for label, speed in speeds.items()))


def random_episodes_of(spec: StudySpec, agents: Mapping[str, AgentSpec], executor: Executor) -> EpisodeLength | None:
    """Return the length of random episodes of the environment of a search.

    None after an error, and if all agents are functions of the user, which make environments in their own way.

    Args:
        spec: The study.
        agents: Label -> agent.
        executor: The executor.
    """
    agent = next((agent for agent in agents.values() if not agent.is_own_function), None)
    if agent is None:
        return None
    here = executor.n_processes == 0 or spec.executor == "ray"
    return measure_episodes(agent, own_process=not here)


def trials_to_measure(spec: StudySpec, agent_of: AgentOf, executor: Executor, why_alone: str = "") -> list[TrialSpec]:
    """Return the trials that a search runs first at the same time, at least one for each agent."""
    n = max(len(spec.agents), min(spec.n_trials, executor.trials_at_once(len(spec.seeds))))
    planned = spec.plan()
    rows: list[Mapping[str, Any]] = list(planned[:n])
    if not planned:
        first = dict(spec.first[0]) if spec.first else {}
        labels = [{"agent": spec.agents[k % len(spec.agents)]} if len(spec.agents) > 1 else {} for k in range(n)]
        rows = [existing({**first, **label}, spec.search_space()) for label in labels]
    return [
        TrialSpec(
            number=number,
            agent=agent_of({**spec.fixed, **row}, spec.agents[0]),
            seeds=spec.seeds,
            env_steps=_LONG,
            metric=spec.metric,
            metrics=spec.metrics,
            name=str(row.get("agent", spec.agents[0])),
            hang_seconds=spec.hang_seconds,
            strategy=spec.strategy,
            why_alone=why_alone,
        )
        for number, row in enumerate(rows)
    ]


def _n_structures(spec: StudySpec, agent_of: AgentOf) -> int:
    """Return the number of different compiled agents among the trials of a study."""
    label = spec.agents[0]
    if planned := spec.plan():
        return len({agent_of({**spec.fixed, **row}, label).structure() for row in planned[:200]})
    base = agent_of({**spec.fixed, **(spec.first[0] if spec.first else {})}, label)
    for name, space in spec.search_space().items():
        if name == "agent" or isinstance(space, Fixed):
            continue
        for value in extremes(space):
            if value is None:
                continue
            try:
                other = agent_of({**spec.fixed, name: value}, label)
            except ConfigurationError:  # it does not fit to the other values
                continue
            if other.structure() != base.structure():
                return ONE_FOR_EACH
    return len(spec.agents)


def make_plan(
    spec: StudySpec,
    executor: Executor,
    *,
    measured: Measured | None,
    extends: bool = False,
    longest_episode: int | None = None,
    notes: tuple[str, ...] = (),
) -> SearchPlan:
    """Return the plan of a search.

    Args:
        spec: The study, with its budget.
        executor: The executor.
        measured: The measured costs; None if the time is unknown.
        extends: Whether the range is extended if the best rate is at its edge.
        longest_episode: Environment steps of the longest episodes, None if they have no limit.
        notes: Further sentences.
    """
    by_steps = spec
    if spec.episodes is not None and longest_episode is not None:
        longest = {"env_steps": spec.episodes * longest_episode, "episodes": None}
        by_steps = spec.model_copy(update={**longest, "pruner": "none", "pruner_kwargs": {}})
    has_steps, at_once = by_steps.env_steps is not None, executor.trials_at_once(len(spec.seeds))
    courses = expected_courses(by_steps, spec.n_trials, at_once) if has_steps else []
    time = memory = None
    if measured is not None:
        time = estimated_time(by_steps, measured.costs, courses) if has_steps else None
        memory = memory_of(measured.costs, min(spec.n_trials, at_once) * len(spec.seeds))
    return SearchPlan(
        spec=spec,
        rungs=rungs_of(courses),
        n_batches=max(1, len(courses)),
        extends=extends,
        most_steps=most_steps(by_steps) if has_steps else None,
        expected_steps=min(expected_steps(by_steps, courses), most_steps(by_steps)) if has_steps else None,
        executor=executor.description,
        n_processes=max(1, executor.n_processes),
        time=time,
        memory_bytes=memory,
        free_bytes=free_memory(),
        measured=measured.sentences if measured is not None else (),
        notes=(*executor.notes, *notes),
    )


def _sentence(label: str, speed: Speed) -> str:
    runs = counted(speed.n_runs, "run")
    how = f"{runs} of {label}" + (" together" if speed.n_runs > 1 else "")
    evaluating = (
        f"; an evaluation of a run at most {speed.evaluation_seconds:.2g} s" if speed.evaluation_seconds else ""
    )
    return (
        f"{how} for {speed.measured_seconds:.1f} s after {speed.start_seconds:.1f} s of compilation: "
        f"{speed.steps_per_second:,.0f} environment steps/s in a process{evaluating}"
    )
