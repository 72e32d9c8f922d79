"""The Ray executor: trials run in the processes of a Ray cluster (extra `ray`).

A worker process is a Ray actor that requests CPUs and memory. If a machine fails, its trials resume from their last
checkpoints where `FINDER_CHECKPOINTS` names a folder that all machines share; otherwise they restart.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agents.backend.threads import at_most
from agents.errors import ConfigurationError
from agents.processes.module_path import search_first
from agents.shared_objects import address_for_actors
from agents.shared_objects.ray_connection import connected_ray, first_line, on_this_machine
from finder.executors.batches import Batching
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.executors.message_broker import MessageBroker
from finder.executors.trial_dispatcher import TrialDispatcher
from finder.executors.worker_pool import WorkerProcess, Workers

POLL_SECONDS = 0.1


class RayExecutor(Executor):
    """Runs trials in a Ray cluster, one a process: the cluster that `RAY_ADDRESS` names, or one on this machine.

    Args:
        n_jobs: Trials at the same time, >= 1; trials wait for free resources. Defaults to None: as many as fit.
        cpus: CPUs of a trial, > 0. Defaults to 1.
        memory: Memory of a trial in bytes, or None.

    Raises:
        ConfigurationError: Ray is not installed, the cluster cannot be reached, or no machine has room for a trial.
    """

    def __init__(self, n_jobs: int | None = None, *, cpus: float = 1.0, memory: int | None = None) -> None:
        self._ray = connected_ray("The executor 'ray'")
        self._cpus, self._memory = cpus, memory
        room = capacity_for(cpus, memory, [node["Resources"] for node in self._ray.nodes() if node["Alive"]])
        self.n_jobs = n_jobs or room

    @property
    def description(self) -> str:
        n_nodes = sum(node["Alive"] for node in self._ray.nodes())
        return f"a trial each in {self.n_jobs} processes of a Ray cluster of {n_nodes} machine(s)"

    @property
    def n_processes(self) -> int:
        return self.n_jobs

    def trials_at_once(self, n_seeds: int) -> int:
        return self.n_jobs

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        pool = _RayWorkerPool(self._ray, self._cpus, self._memory)
        try:
            TrialDispatcher(
                Workers(pool),
                listener,
                n_jobs=self.n_jobs,
                batching=Batching(),
                name="ray",
                reuses=True,  # an actor takes seconds to import TensorFlow
            ).run(next_trial)
        finally:
            pool.close()


def capacity_for(cpus: float, memory: int | None, machines: Sequence[Mapping[str, float]]) -> int:
    """Return how many trials fit into a cluster at the same time, each on one machine.

    Args:
        cpus: CPUs of a trial.
        memory: Memory of a trial in bytes, or None.
        machines: Resources of each machine, under ``"CPU"`` and ``"memory"``.

    Raises:
        ConfigurationError: No machine has enough resources for a trial.
    """
    asked = {"CPU": cpus} if memory is None else {"CPU": cpus, "memory": memory}
    # Within a millionth, as 0.3 / 0.1 is less than 3.
    room = sum(min(math.floor(has.get(name, 0.0) / n + 1e-6) for name, n in asked.items()) for has in machines)
    if not room:
        there = sorted({_size(has.get("CPU", 0.0), has.get("memory", 0.0)) for has in machines})
        raise ConfigurationError(
            f"No machine of the Ray cluster has room for a trial of {_size(cpus, memory)}; they have "
            f"{', '.join(there[:5]) or 'nothing'}: ask for less (trial_cpus, trial_memory_gb)."
        )
    return room


def _size(cpus: float, memory: float | None) -> str:
    size = f"{cpus:g} CPU" if cpus == 1 else f"{cpus:g} CPUs"
    return size if memory is None else f"{size} and {memory / 1e9:.1f} GB"


class _RemoteBroker:
    """A proxy of the broker in a Ray actor; calls wait for their results."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._actor, name)

        def call(*args: Any) -> Any:
            try:
                return self._ray.get(method.remote(*args))
            except self._ray.exceptions.RayError as error:
                raise ConnectionError(f"the broker is gone: {error}") from error

        return call


class _RayProcess:
    """A worker process in a Ray actor."""

    def __init__(self, ray: Any, actor: Any, running: Any) -> None:
        self._ray, self._actor, self.running = ray, actor, running

    def is_alive(self) -> bool:
        done, _ = self._ray.wait([self.running], timeout=0)
        return not done

    def kill(self) -> None:
        self._ray.kill(self._actor, no_restart=True)

    def join(self, seconds: float | None = None) -> None:
        self._ray.wait([self.running], timeout=seconds)


class _RayWorkerPool:
    """Starts worker processes in Ray actors.

    Args:
        ray: The module.
        cpus: CPUs of each actor.
        memory: Memory of each actor in bytes, or None.
    """

    def __init__(self, ray: Any, cpus: float, memory: int | None) -> None:
        self._ray = ray
        # On the machine of this process, for its lifetime; every waiting worker occupies one of its threads.
        options = {"num_cpus": 0, "max_concurrency": 1_000, "scheduling_strategy": on_this_machine(ray)}
        self._broker_actor = ray.remote(MessageBroker).options(**options).remote()
        self.broker: Any = _RemoteBroker(ray, self._broker_actor)
        self._options: dict[str, Any] = {"num_cpus": cpus, "max_restarts": 0}
        if memory is not None:
            self._options["memory"] = memory
        self._threads = at_most(max(1, int(cpus)))

    def start(self, number: int) -> _RayProcess:
        actor = self._ray.remote(_RayWorker).options(**self._options).remote()
        running = actor.run.remote(number, self._broker_actor, self._threads, list(sys.path), address_for_actors())
        return _RayProcess(self._ray, actor, running)

    def wait(self, _processes: Sequence[WorkerProcess]) -> None:
        time.sleep(POLL_SECONDS)

    def cause(self, process: _RayProcess) -> str:
        try:
            self._ray.get(process.running, timeout=0)
        except Exception as error:  # noqa: BLE001 - any error of Ray is the cause
            return f"is gone: {first_line(error)}"
        return "ended before its trial was done"

    def close(self) -> None:
        """Ends the broker."""
        with suppress(Exception):
            self._ray.kill(self._broker_actor, no_restart=True)


class _RayWorker:
    """The actor class: a process that runs batches of trials."""

    def run(self, number: int, broker: Any, threads: int, path: list[str], shared: str) -> None:
        import ray

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        search_first(path)
        from agents.processes.child_process import begin
        from finder.executors.worker_process import main

        begin(threads, shared, sys.path)
        main(number, _RemoteBroker(ray, broker), _NoWakeups())


class _NoWakeups:
    """A connection without a receiver: the parent polls the broker."""

    def send_bytes(self, _data: bytes) -> None:
        """Ignore the data."""
