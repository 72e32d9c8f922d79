"""Which executor a study runs on, in how many processes, and how many runs each of them trains at the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError, NotMappableError, unknown_name
from finder.executors.batches import Batching
from finder.executors.executor import Executor
from finder.executors.machine import cores, free_memory
from studies.spec.scheduler_names import learns_from_results

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from studies.spec.spec import StudySpec

EXECUTORS = ("population", "process", "inline")

POPULATION = 64
"""Members of a population at most, where nobody says otherwise: beyond that nothing is gained."""

WORTH_PROCESSES = 200_000
"""Environment steps, over all runs, from which further processes pay for the seconds that their start takes."""

TRIALS_AT_ONCE = 8
"""Trials that a population asks for before it has results, where the sampler learns from results."""

PROCESS_BYTES = 900e6
"""What a process takes before it trains anything."""

SHARE_OF_MEMORY = 0.8
"""Of what is free; the rest is for what was not thought of."""


def make_executor(
    name: str, n_jobs: int = 1, *, population: int = POPULATION, trials_at_once: int | None = None
) -> Executor:
    """The executor of a name.

    Args:
        name: ``"population"``: many trials at a time, in this process or in `n_jobs` others. ``"process"``: a process
            a trial. ``"inline"``: one trial after another, in this process.
        n_jobs: Processes at the same time; `inline` takes 1 only.
        population: Runs (trials times seeds) that a process trains at the same time, >= 1.
        trials_at_once: Most trials that a population asks for before it has results; None without limit.

    Raises:
        ConfigurationError: An unknown name, or a number that it cannot do.
    """
    from finder.executors.inline import InlineExecutor
    from finder.executors.process import ProcessExecutor

    if population < 1:
        raise ConfigurationError(f"population must be >= 1, got {population}.")
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


def prepare_for(spec: StudySpec) -> None:
    """Starts what the processes of a study need, where it will have some, before its agents are looked at."""
    if spec.executor == "ray":
        return
    needs_one = spec.executor == "process" or spec.strategy != "none"
    has_processes = needs_one or (spec.executor != "inline" and (spec.n_jobs or _jobs_that_pay(spec)) > 1)
    if has_processes:
        from agents.processes.fork_server import prepare_processes
        from finder.executors.process import CHILD

        prepare_processes(CHILD)


def choose_executor(spec: StudySpec, agents: Mapping[str, AgentSpec], why_alone: str = "") -> Executor:
    """The executor that a study asks for, or the one that suits it; `Executor.notes` says what is worth knowing of it.

    Args:
        spec: The study.
        agents: Its agents by label.
        why_alone: Why no run of it can be a member of a population, whoever the agent is; empty where one can.

    Raises:
        ConfigurationError: A number that the executor cannot do.
    """
    name, notes = spec.executor, []
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
    for label, told in refusals.items():
        where = "seeds and trials one after another" if name == "population" else "a process a trial"
        notes.append(f"{label} cannot be trained in a population ({where} instead): {told}")
    if name == "process" or (name == "auto" and refusals):
        executor = make_executor("process", spec.n_jobs or min(cores(), _n_trials(spec)))
    else:
        n_jobs = spec.n_jobs or _jobs_that_pay(spec)
        population, note = _population_that_fits(spec, max(member.n_bytes for member in members.values()), n_jobs)
        notes += [note] if note else []
        adaptive = not spec.plan() and learns_from_results(spec.sampler)
        at_once = max(TRIALS_AT_ONCE, n_jobs) if adaptive else None
        executor = make_executor("population", n_jobs, population=population, trials_at_once=at_once)
    executor.notes = notes
    return executor


class _Member(NamedTuple):
    """What is found when an agent is tried as the member of a population, without training it."""

    refusal: str = ""  # why it cannot be one
    n_bytes: int = 0  # what one takes when its memory is full, about; 0 where that is not known


def _probe_member(agent: AgentSpec) -> _Member:
    """Tries it. Whatever goes wrong beside is left to the trials, which keep the traceback."""
    from agents.population import Population, bytes_of_member

    if agent.why_alone:
        return _Member(refusal=agent.why_alone)
    try:
        return _Member(n_bytes=bytes_of_member(Population(agent, [{}]).agent))
    except NotMappableError as error:
        return _Member(refusal=str(error))
    except Exception:  # noqa: BLE001 - see above
        return _Member()


def _n_trials(spec: StudySpec) -> int:
    return len(spec.plan()) or spec.n_trials


def _jobs_that_pay(spec: StudySpec) -> int:
    """Every process must import TensorFlow and compile, so little work is done sooner in one."""
    if spec.env_steps is None:
        return min(cores(), _n_trials(spec))
    work = spec.env_steps * len(spec.seeds) * _n_trials(spec)
    return max(1, min(cores(), _n_trials(spec), work // WORTH_PROCESSES))


def _population_that_fits(spec: StudySpec, n_bytes: int, n_jobs: int) -> tuple[int, str]:
    """Members a process of `n_bytes` each, and a word about it where it is fewer than was asked for."""
    wanted = spec.population or POPULATION
    free = free_memory()
    if free is None or not n_bytes:
        return wanted, ""
    room = SHARE_OF_MEMORY * free / n_jobs - PROCESS_BYTES
    fits = max(1, math.floor(room / n_bytes))
    if fits >= wanted:
        return wanted, ""
    told = f"a run takes about {n_bytes / 1e6:,.0f} MB, so {fits} are trained at the same time in each process"
    return fits, f"{told} instead of {wanted}" if spec.population else told
