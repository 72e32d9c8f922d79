"""Trials in the processes of a Ray cluster: the extra `ray`.

A trial's process is a Ray actor that asks for CPUs and memory, so that Ray finds it a machine; a machine that dies
costs its trials what they did since their last checkpoints. Those are found again where `FINDER_CHECKPOINTS` names a
folder that all machines share; elsewhere such trials begin anew.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agents.errors import ConfigurationError
from finder.executors.batches import Batching
from finder.executors.board import Board
from finder.executors.crew import Process, Run
from finder.executors.executor import Executor, NextTrial, StudyListener

POLL_SECONDS = 0.1


class RayExecutor(Executor):
    """Runs trials in a Ray cluster, one a process: the cluster that `RAY_ADDRESS` names, or one on this machine.

    Args:
        n_jobs: Trials at the same time, >= 1. Defaults to None: as many as the cluster's CPUs have room for.
        cpus: CPUs that a trial asks for, above 0.
        memory: Bytes that a trial asks for, or None.

    Raises:
        ConfigurationError: Ray is not installed, the cluster cannot be reached, or it has no room for a trial.
    """

    def __init__(self, n_jobs: int | None = None, *, cpus: float = 1.0, memory: int | None = None) -> None:
        self._ray = _ray()
        self._cpus, self._memory = cpus, memory
        room = int(self._ray.cluster_resources().get("CPU", 0) // cpus)
        if not room:
            raise ConfigurationError(
                f"No trial of {cpus:g} CPUs has room in the Ray cluster, whose machines have "
                f"{self._ray.cluster_resources().get('CPU', 0):g} together: ask for fewer (trial_cpus)."
            )
        self.n_jobs = n_jobs or room

    @property
    def description(self) -> str:
        n_nodes = sum(node["Alive"] for node in self._ray.nodes())
        return f"a trial each in {self.n_jobs} processes of a Ray cluster of {n_nodes} machine(s)"

    def trials_at_once(self, n_seeds: int) -> int:
        return self.n_jobs

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        crew = _RayCrew(self._ray, self._cpus, self._memory)
        try:
            Run(
                crew,
                n_jobs=self.n_jobs,
                batching=Batching(),
                name="ray",
                next_trial=next_trial,
                listener=listener,
                reuses=True,  # an actor needs seconds to import TensorFlow
            ).loop()
        finally:
            crew.close()


def _ray() -> Any:
    """Ray, connected to a cluster."""
    try:
        import ray
    except ImportError:
        raise ConfigurationError("The executor 'ray' needs Ray: pip install 'agentfinder[ray]'.") from None
    if not ray.is_initialized():
        try:
            ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
        except Exception as error:
            raise ConfigurationError(f"The Ray cluster cannot be reached: {error}") from error
    return ray


class _RemoteBoard:
    """The board in a process of its own, whose calls wait for their answers."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._actor, name)

        def call(*args: Any) -> Any:
            try:
                return self._ray.get(method.remote(*args))
            except self._ray.exceptions.RayError as error:
                raise ConnectionError(f"the board is gone: {error}") from error

        return call


class _Actor:
    """A process of the crew."""

    def __init__(self, ray: Any, actor: Any, running: Any) -> None:
        self._ray, self._actor, self._running = ray, actor, running

    @property
    def cause(self) -> str:
        try:
            self._ray.get(self._running, timeout=0)
        except Exception as error:  # noqa: BLE001 - whatever Ray says of it
            return f"is gone: {str(error).strip().splitlines()[0]}"
        return "ended before its trial was done"

    def is_alive(self) -> bool:
        done, _ = self._ray.wait([self._running], timeout=0)
        return not done

    def kill(self) -> None:
        self._ray.kill(self._actor, no_restart=True)

    def join(self, seconds: float | None = None) -> None:
        self._ray.wait([self._running], timeout=seconds)


class _RayCrew:
    """Starts actors, which Ray places.

    Args:
        ray: The module.
        cpus: CPUs that each asks for.
        memory: Bytes that each asks for, or None.
    """

    def __init__(self, ray: Any, cpus: float, memory: int | None) -> None:
        self._ray = ray
        # Beside this process, as long as it lives; every waiting worker takes one of its threads.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        options = {"num_cpus": 0, "max_concurrency": 1_000, "scheduling_strategy": here}
        self._board_actor = ray.remote(Board).options(**options).remote()
        self.board: Any = _RemoteBoard(ray, self._board_actor)
        self._options: dict[str, Any] = {"num_cpus": cpus, "max_restarts": 0}
        if memory is not None:
            self._options["memory"] = memory
        self._threads = max(1, int(cpus))

    def start(self, number: int) -> _Actor:
        actor = self._ray.remote(_Worker).options(**self._options).remote()
        running = actor.run.remote(number, self._board_actor, self._threads, list(sys.path))
        return _Actor(self._ray, actor, running)

    def wait(self, _processes: Sequence[Process]) -> None:
        time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Ends the board."""
        with suppress(Exception):
            self._ray.kill(self._board_actor, no_restart=True)


class _Worker:
    """What an actor is: one process that runs batches of trials."""

    def run(self, number: int, board: Any, threads: int, path: list[str]) -> None:
        import ray

        own = [each for each in sys.path if each not in path]
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        sys.path[:] = [*path, *own]
        from finder.executors.child import main

        main(number, _RemoteBoard(ray, board), _NoRope(), threads, list(sys.path))


class _NoRope:
    """Nobody listens for a bell: the board is asked all the time."""

    def send_bytes(self, _data: bytes) -> None:
        """Does nothing."""
