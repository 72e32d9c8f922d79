"""The executor of population-based training: all members in one population of this process."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from agents.backend.memory import free_memory
from agents.config.agent_config import AgentConfig
from agents.errors import ConfigurationError, NotMappableError
from finder.executors.batches import POPULATION, SHARE_OF_MEMORY, Batching
from finder.executors.executor import Executor
from finder.trials.speed import rollout_steps
from studies.population_based.by_name import population_based_of
from studies.spec.population_rules import N_INTERVALS, PERTURB_STEPS, perturb_steps_of, searched_ranges

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from agents.population import Population
    from studies.spec.spec import StudySpec

_TOGETHER = "Population-based training has all members in one population"


def population_based_executor(spec: StudySpec, agent: AgentSpec, why_alone: str) -> Executor:
    """Return the executor of a study with population-based training.

    Args:
        spec: The study.
        agent: Its agent.
        why_alone: Why no run can be a member of a population, whatever the agent; empty if runs can.

    Raises:
        StudyError: An argument of the scheduler is unknown or out of range.
        ConfigurationError: The agent cannot be trained in a population, a searched parameter cannot change while it
            trains, or the population does not fit into memory.
    """
    from agents.population import Population, bytes_of_member
    from finder.executors.inline import InlineExecutor

    population_based_of(spec)  # refuses its arguments before the study is created
    ranges = searched_ranges(spec)
    agent = agent.with_params({**spec.fixed, **{name: space.low for name, space in ranges.items()}})
    if isinstance(agent.config, AgentConfig):
        _check_own_rates(agent.config, ranges)
    reason = why_alone or agent.why_alone
    try:
        if reason:
            raise NotMappableError(reason)
        population = Population(agent, [{}])
    except NotMappableError as error:
        raise ConfigurationError(f"{_TOGETHER}, and {spec.agents[0]} cannot be a member: {error}") from error
    for name, space in ranges.items():
        _check_mutable(population, name, space.high)
    _check_interval(spec, agent)
    n_runs, n_bytes, free = spec.n_trials * len(spec.seeds), bytes_of_member(population.agent), free_memory()
    if free is not None and n_bytes and n_runs * n_bytes > SHARE_OF_MEMORY * free:
        raise ConfigurationError(
            f"{_TOGETHER}, and a run takes about {n_bytes / 1e6:,.0f} MB, so that {n_runs} do not fit into memory: "
            "give fewer trials (--n-trials), or a smaller replay (buffer_size) or network."
        )
    is_short = n_bytes and free and POPULATION * n_bytes > SHARE_OF_MEMORY * free
    members = spec.population or (n_runs if is_short else max(POPULATION, n_runs))
    executor = InlineExecutor(Batching(members=members))
    executor.notes = [f"{spec.n_trials} trials are members of one population in this process, and copy each other"]
    return executor


def _check_own_rates(config: AgentConfig, searched: Container[str]) -> None:
    """Raise `ConfigurationError` for a rate of one optimizer that a change of all rates would replace."""
    if "learning_rate" not in searched:
        return
    for name, own in config.optimizers.items():
        rate = f"{name}.learning_rate"
        if "learning_rate" in own and rate not in searched and config.follows_learning_rate(name):
            raise ConfigurationError(
                f"learning_rate is searched, and {rate} is {own['learning_rate']}: a change of learning_rate while "
                f"agents train sets all rates. Search {rate}, too (--param {rate}), or leave it out."
            )


def _check_interval(spec: StudySpec, agent: AgentSpec) -> None:
    """Raise `ConfigurationError` for an interval that is shorter than a rollout, so that some have no update."""
    rollout, interval = rollout_steps(agent), perturb_steps_of(spec)
    if interval >= rollout:
        return
    steps = f"{rollout:,} environment steps (n_steps x n_envs)"
    if PERTURB_STEPS in spec.pruner_kwargs:
        raise ConfigurationError(
            f"perturb_steps is {interval:,}, but members learn from rollouts of {steps}: give at least {rollout} "
            "(--perturb-steps)."
        )
    raise ConfigurationError(
        f"A tenth of the budget, the interval of {spec.pruner}, is {interval:,} environment steps, but members learn "
        f"from rollouts of {steps}: give a larger budget (--env-steps {N_INTERVALS * rollout}), longer intervals "
        f"(--perturb-steps {rollout}) or shorter rollouts; in Python env_steps and perturb_steps."
    )


def _check_mutable(population: Population, name: str, value: float) -> None:
    """Raise `ConfigurationError` for a parameter that cannot change while an agent trains."""
    config = population.config
    plain = config.field_of(name, value) if name in config.complements() else {name: value}
    try:
        for own, number in plain.items():
            population.set_hyperparameter(own, number)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"Population-based training changes numbers while agents train, and {name} is none of these: {error} Fix "
            f"it (--set {name}=VALUE; in Python fixed), and choose its value by a search with another scheduler first."
        ) from error
