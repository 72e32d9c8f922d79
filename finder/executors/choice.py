"""The choice of an executor: its kind, the number of processes, and the runs that each of them trains at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from agents.backend.cores import cores
from agents.backend.memory import free_memory
from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError, NotMappableError, check_at_least, unknown_name
from finder.executors.batches import POPULATION, SHARE_OF_MEMORY, Batching
from finder.executors.executor import Executor
from finder.executors.population_based import population_based_executor
from finder.executors.preparation import n_steps_of
from studies.spec.scheduler_names import is_population_based, learns_from_results

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from studies.spec.spec import StudySpec

EXECUTORS = ("population", "process", "inline")

_TAKEN_BY = {
    "population": ("auto", "population"),
    "n_jobs": ("auto", "population", "process", "ray"),
    "trial_cpus": ("ray",),
    "trial_memory_gb": ("ray",),
}
"""Setting of a study -> the executors that have it."""

WORTH_SECONDS = 4.0
"""Seconds of training by one process that make up for the start of a further one."""

TRIALS_AT_ONCE = 8
"""Trials that a population requests before it has results, for samplers that learn from results."""

PROCESS_BYTES = 900e6
"""Memory of a process before training."""


def make_executor(
    name: str, n_jobs: int = 1, *, population: int = POPULATION, trials_at_once: int | None = None
) -> Executor:
    """Return the executor of a name.

    Args:
        name: ``"population"``: many trials at a time, in this process or in `n_jobs` others. ``"process"``: a process
            a trial. ``"inline"``: one trial after another, in this process.
        n_jobs: Processes at the same time; `inline` takes 1 only.
        population: Runs (trials times seeds) that a process trains at the same time, >= 1.
        trials_at_once: Most trials that a population requests before it has results; None for no limit.

    Raises:
        ConfigurationError: The name is unknown, or the executor does not support the number of processes.
    """
    from finder.executors.inline import InlineExecutor
    from finder.executors.process import ProcessExecutor

    check_at_least(1, population=population)
    if name == "process":
        return ProcessExecutor(n_jobs)
    if name == "population":
        batching = Batching(members=population, trials=trials_at_once)
        return InlineExecutor(batching) if n_jobs == 1 else ProcessExecutor(n_jobs, batching)
    if name == "inline":
        if n_jobs != 1:
            raise ConfigurationError(
                f"The inline executor runs one trial at a time, not n_jobs={n_jobs}; use 'population' or 'process'."
            )
        return InlineExecutor(Batching())
    raise unknown_name("executor", name, EXECUTORS)


def settings_of_others(executor: str) -> list[str]:
    """Return the settings of a study that an executor does not have."""
    return [setting for setting, executors in _TAKEN_BY.items() if executor not in executors]


def choose_executor(spec: StudySpec, agents: Mapping[str, AgentSpec], why_alone: str = "") -> Executor:
    """Return the executor that a study names, or the best one for it; `Executor.notes` has the reasons.

    Args:
        spec: The study.
        agents: Its agents by label.
        why_alone: Why no run can be a member of a population, whatever the agent; empty if runs can.

    Raises:
        ConfigurationError: The executor does not support the number of processes, or has no populations.
    """
    name, notes = spec.executor, []
    if is_population_based(spec.pruner):
        (agent,) = agents.values()
        return population_based_executor(spec, agent, why_alone)
    strategy = StrategySpec.of(spec.strategy)
    if spec.population is not None and (name not in _TAKEN_BY["population"] or not strategy.is_none):
        alone = f"executor {name!r}" if strategy.is_none else f"strategy {spec.strategy!r}"
        raise ConfigurationError(
            f"population is {spec.population}, but with the {alone} each run is trained by itself: leave one of the "
            "two out."
        )
    if name == "inline":
        return make_executor(name, spec.n_jobs or 1)
    if name == "ray":
        from finder.executors.ray_cluster import RayExecutor

        memory = None if spec.trial_memory_gb is None else int(spec.trial_memory_gb * 1e9)
        return RayExecutor(spec.n_jobs, cpus=spec.trial_cpus or 1.0, memory=memory)
    if not strategy.is_none:
        others = strategy.replicas * int(PROCESS_BYTES) if strategy.has_processes else 0
        n_jobs = spec.n_jobs or _n_jobs_that_fit(min(cores() // strategy.replicas, spec.n_trials), others)
        executor = make_executor("process", n_jobs)
        executor.notes = [f"each run learns with the strategy {strategy}, so its trials have processes of their own"]
        return executor
    members = {
        label: _Member(refusal=why_alone) if why_alone else _probe_member(agent) for label, agent in agents.items()
    }
    refusals = {label: member.refusal for label, member in members.items() if member.refusal}
    for label, refusal in refusals.items():
        where = "seeds and trials one after another" if name == "population" else "a process a trial"
        notes.append(f"{label} cannot be trained in a population ({where} instead): {refusal}")
    n_bytes = max(member.n_bytes for member in members.values())
    if name == "process" or (name == "auto" and refusals):
        n_jobs = spec.n_jobs or _n_jobs_that_fit(min(cores(), spec.n_trials), n_bytes * len(spec.seeds))
        executor = make_executor("process", n_jobs)
    else:
        n_jobs = spec.n_jobs or _default_n_jobs(spec, max(member.seconds for member in members.values()), n_bytes)
        population, note = _population_that_fits(spec, n_bytes, n_jobs)
        notes += [note] if note else []
        adaptive = not spec.plan() and learns_from_results(spec.sampler)
        at_once = max(TRIALS_AT_ONCE, n_jobs) if adaptive else None
        executor = make_executor("population", n_jobs, population=population, trials_at_once=at_once)
    executor.notes = notes
    return executor


class _Member(NamedTuple):
    """The result of building an agent as the member of a population, without training it."""

    refusal: str = ""  # why the agent cannot be a member
    n_bytes: int = 0  # approximate memory of a member with a full replay buffer; 0 if unknown
    seconds: float = 0.0  # approximate seconds of an environment step on one core; 0 if unknown


def _probe_member(agent: AgentSpec) -> _Member:
    """Build the agent as a member. Other errors are ignored here, because the trials record their tracebacks."""
    from agents.population import Population, bytes_of_member, seconds_per_step

    if agent.why_alone:
        return _Member(refusal=agent.why_alone)
    try:
        built = Population(agent, [{}]).agent
        return _Member(n_bytes=bytes_of_member(built), seconds=seconds_per_step(built))
    except NotMappableError as error:
        return _Member(refusal=str(error))
    except Exception:  # noqa: BLE001 - see above
        return _Member()


def _default_n_jobs(spec: StudySpec, seconds_per_step: float, n_bytes: int) -> int:
    """Return the number of processes that pays: each imports TensorFlow and compiles, so little work needs one."""
    n_steps, most = n_steps_of(spec), min(cores(), spec.n_trials)
    worth = most if n_steps is None else min(most, int(n_steps * seconds_per_step / WORTH_SECONDS))
    return _n_jobs_that_fit(worth, n_bytes)


def _n_jobs_that_fit(n_jobs: int, n_bytes: int = 0) -> int:
    """Return for how many processes, of `n_jobs`, there is memory with `n_bytes` for what each trains; at least 1."""
    free = free_memory()
    fits = n_jobs if free is None else int(SHARE_OF_MEMORY * free / (PROCESS_BYTES + n_bytes))
    return max(1, min(n_jobs, fits))


def _population_that_fits(spec: StudySpec, n_bytes: int, n_jobs: int) -> tuple[int, str]:
    """Return how many members of `n_bytes` fit into each process, and a note if they are fewer than requested."""
    wanted = spec.population or POPULATION
    free = free_memory()
    if free is None or not n_bytes:
        return wanted, ""
    room = SHARE_OF_MEMORY * free / n_jobs - (PROCESS_BYTES if n_jobs > 1 else 0.0)  # this process is there already
    fits = max(1, math.floor(room / n_bytes))
    if fits >= wanted:
        return wanted, ""
    note = f"a run takes about {n_bytes / 1e6:,.0f} MB, so {fits} are trained at the same time in each process"
    return fits, f"{note} instead of {wanted}" if spec.population else note
