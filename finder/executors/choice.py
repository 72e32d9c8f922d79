"""The choice of an executor: its kind, the number of processes, and the runs that each of them trains at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from agents.backend.cores import cores
from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError, NotMappableError, check_at_least, unknown_name
from finder.executors.batches import Batching
from finder.executors.executor import Executor
from finder.executors.machine import free_memory
from finder.executors.population_based import population_based_executor
from studies.spec.scheduler_names import is_population_based, learns_from_results

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from studies.spec.spec import StudySpec

EXECUTORS = ("population", "process", "inline")

POPULATION = 64
"""Default limit of the members of a population: larger populations are not faster."""

WORTH_SECONDS = 4.0
"""Seconds of training by one process that make up for the start of a further one."""

WORTH_PREPARING = 20_000
"""Environment steps over all runs from which processes are prepared before it is known whether they pay."""

TRIALS_AT_ONCE = 8
"""Trials that a population requests before it has results, for samplers that learn from results."""

PROCESS_BYTES = 900e6
"""Memory of a process before training."""

SHARE_OF_MEMORY = 0.8
"""Share of the free memory that populations may use."""


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


def probably_uses_processes(spec: StudySpec) -> bool:
    """Return whether worker processes will probably run a study, before the speed of its agents is known."""
    return are_processes_likely(
        executor=spec.executor, pruner=spec.pruner, strategy=spec.strategy, n_jobs=spec.n_jobs,
        n_trials=_n_trials(spec), n_steps=_n_steps(spec),
    )  # fmt: skip


def are_processes_likely(
    *, executor: str | None, pruner: str, strategy: str, n_jobs: int | None, n_trials: int, n_steps: int | None
) -> bool:
    """Return whether worker processes will probably run trials.

    Args:
        executor: Name of the executor; None for none.
        pruner: Name of the pruner, or empty.
        strategy: Name of the distribution strategy.
        n_jobs: Number of processes that is asked for; None if it is to be chosen.
        n_trials: Number of trials.
        n_steps: Environment steps of all runs; None if they are unknown.
    """
    if executor == "ray" or is_population_based(pruner):
        return False
    if executor == "process" or strategy != "none":
        return True
    chosen = min(cores(), n_trials) if n_steps is None or n_steps >= WORTH_PREPARING else 1
    return executor != "inline" and (n_jobs or chosen) > 1


def prepare_workers() -> None:
    """Start the fork server of worker processes, which imports TensorFlow; does nothing if it is running."""
    from agents.processes.fork_server import prepare_processes
    from finder.executors.process import CHILD

    prepare_processes(CHILD)


def choose_executor(spec: StudySpec, agents: Mapping[str, AgentSpec], why_alone: str = "") -> Executor:
    """Return the executor that a study names, or the best one for it; `Executor.notes` has the reasons.

    Args:
        spec: The study.
        agents: Its agents by label.
        why_alone: Why no run can be a member of a population, whatever the agent; empty if runs can.

    Raises:
        ConfigurationError: The executor does not support the number of processes.
    """
    name, notes = spec.executor, []
    if is_population_based(spec.pruner):
        (agent,) = agents.values()
        return population_based_executor(spec, agent, why_alone, POPULATION, SHARE_OF_MEMORY)
    if name == "inline":
        return make_executor(name, spec.n_jobs or 1)
    if name == "ray":
        from finder.executors.ray_cluster import RayExecutor

        memory = None if spec.trial_memory_gb is None else int(spec.trial_memory_gb * 1e9)
        return RayExecutor(spec.n_jobs, cpus=spec.trial_cpus or 1.0, memory=memory)
    strategy = StrategySpec.of(spec.strategy)
    if not strategy.is_none:
        n_jobs = spec.n_jobs or max(1, min(cores() // strategy.replicas, _n_trials(spec)))
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
    if name == "process" or (name == "auto" and refusals):
        executor = make_executor("process", spec.n_jobs or min(cores(), _n_trials(spec)))
    else:
        n_jobs = spec.n_jobs or _default_n_jobs(spec, max(member.seconds for member in members.values()))
        population, note = _population_that_fits(spec, max(member.n_bytes for member in members.values()), n_jobs)
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


def _n_trials(spec: StudySpec) -> int:
    return len(spec.plan()) or spec.n_trials


def _n_steps(spec: StudySpec) -> int | None:
    """Return the environment steps of all runs, None where the budget is in episodes."""
    return None if spec.env_steps is None else spec.env_steps * len(spec.seeds) * _n_trials(spec)


def _default_n_jobs(spec: StudySpec, seconds_per_step: float) -> int:
    """Return the number of processes that pays: each imports TensorFlow and compiles, so little work needs one."""
    n_steps, most = _n_steps(spec), min(cores(), _n_trials(spec))
    return most if n_steps is None else max(1, min(most, int(n_steps * seconds_per_step / WORTH_SECONDS)))


def _population_that_fits(spec: StudySpec, n_bytes: int, n_jobs: int) -> tuple[int, str]:
    """Return how many members of `n_bytes` fit into each process, and a note if they are fewer than requested."""
    wanted = spec.population or POPULATION
    free = free_memory()
    if free is None or not n_bytes:
        return wanted, ""
    room = SHARE_OF_MEMORY * free / n_jobs - PROCESS_BYTES
    fits = max(1, math.floor(room / n_bytes))
    if fits >= wanted:
        return wanted, ""
    note = f"a run takes about {n_bytes / 1e6:,.0f} MB, so {fits} are trained at the same time in each process"
    return fits, f"{note} instead of {wanted}" if spec.population else note
