"""Measures the speed of the trials of a search where they will run: in this process, or in as many others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.backend.threads import threads_for
from agents.contract.pickling import pickled
from agents.environments.time_limits import EpisodeLength, episodes_or_none
from agents.errors import ConfigurationError
from agents.processes.fork_server import await_fork_server, prepare_processes, start_child
from finder.executors.batches import split_into_batches
from finder.executors.preparation import CHILD
from finder.trials.speed import Speed
from finder.trials.trial import TrialSpec

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec

MEASURING_SECONDS = 300.0
"""Seconds after which a measurement in other processes is given up."""

EPISODES_SECONDS = 60.0
"""Seconds after which random episodes in another process are given up; they take a few."""

END_SECONDS = 2.0
"""Seconds that a process may take to end after its measurement, before it is killed."""


def measure(trials: Sequence[TrialSpec], *, n_processes: int, own_processes: bool, together: bool) -> dict[str, Speed]:
    """Return the speed of each agent among trials that would run at the same time.

    Args:
        trials: The first trials of a search.
        n_processes: Processes in which the search runs them.
        own_processes: Whether these are other processes than this one.
        together: Whether a process trains many trials at the same time; otherwise one trial.

    Raises:
        ConfigurationError: A run failed.
    """
    by_label: dict[str, list[TrialSpec]] = {}
    for trial in trials:
        by_label.setdefault(trial.label, []).append(trial)
    if not own_processes:
        return {label: _measured_here(_share(own, 1, together)) for label, own in by_label.items()}
    if len(by_label) > 1:  # each at the same time as the others, as in the search
        return _measured_elsewhere({label: _share(own, 1, together) for label, own in by_label.items()}, n_processes)
    [(label, own)] = by_label.items()
    n = min(n_processes, len(own))
    several = {f"{label} {k}": _share(own, n, together) for k in range(n)}
    speeds = _measured_elsewhere(several, n_processes)
    return {label: max(speeds.values(), key=lambda speed: speed.step_seconds(speed.n_runs))}


def measure_episodes(agent: AgentSpec, *, own_process: bool) -> EpisodeLength | None:
    """Return the length of a few episodes of random actions; None if the environment fails, as its trials will.

    Args:
        agent: An agent, whose environment is stepped.
        own_process: Whether that runs in another process than this one, as trials do.
    """
    if not own_process:
        return episodes_or_none(agent.environment)
    from finder.trials.speed_measurement import episodes_main  # imports TensorFlow

    context = prepare_processes(CHILD)
    await_fork_server(context)
    receiver, sender = context.Pipe(duplex=False)
    process = start_child(context, episodes_main, pickled(agent, agent), sender, threads=threads_for(1))
    sender.close()
    try:
        length: EpisodeLength | None = receiver.recv() if receiver.poll(EPISODES_SECONDS) else None
        return length
    except EOFError:  # the process has died
        return None
    finally:
        process.join(END_SECONDS)
        process.kill()
        process.join()


def _share(trials: Sequence[TrialSpec], n_processes: int, together: bool) -> list[TrialSpec]:
    """Return the trials of one process, those of the most frequent structure."""
    if not together:
        return list(trials[:1])
    batch = split_into_batches(list(trials), n_processes)[0]
    structures: dict[Any, list[TrialSpec]] = {}
    for trial in batch:
        structures.setdefault(trial.agent.structure(), []).append(trial)
    return max(structures.values(), key=len)


def _measured_here(trials: Sequence[TrialSpec]) -> Speed:
    from finder.trials.speed_measurement import SpeedError, measure_speed  # imports TensorFlow

    try:
        return measure_speed(trials)
    except SpeedError as error:
        raise _failure(trials[0].label, str(error)) from error


def _failure(label: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"The speed of {label} cannot be measured, because its run failed: {reason}. Run the search with --env-steps "
        "(env_steps=), which records the traceback, or correct the cause."
    )


def _measured_elsewhere(named: Mapping[str, Sequence[TrialSpec]], n_processes: int) -> dict[str, Speed]:
    """Measure trials in a process each, all at the same time."""
    from finder.trials.speed_measurement import speed_main

    context = prepare_processes(CHILD)
    await_fork_server(context)
    processes, ends = {}, {}
    try:
        for label, trials in named.items():
            receiver, sender = context.Pipe(duplex=False)
            payload = [pickled(trial.agent, trial) for trial in trials]
            processes[label] = start_child(context, speed_main, payload, sender, threads=threads_for(n_processes))
            ends[label] = receiver
            sender.close()
        speeds = {label: _received(label, trials[0].label, ends[label]) for label, trials in named.items()}
        for process in processes.values():
            process.join(END_SECONDS)
        return speeds
    finally:
        for process in processes.values():
            process.kill()
            process.join()


def _received(label: str, agent: str, end: Any) -> Speed:
    try:
        answer = end.recv() if end.poll(MEASURING_SECONDS) else f"it took more than {MEASURING_SECONDS:g} s"
    except EOFError:
        answer = f"the process of {label} has died (out of memory, perhaps)"
    if isinstance(answer, Speed):
        return answer
    raise _failure(agent, str(answer))
