"""The contract of worker pools: how processes are started and ended, on this machine or in a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.processes.interrupts import defer_interrupts
from finder.executors.message_broker import MessageBroker
from finder.trials.trial import TrialSpec

log = logging.getLogger(__name__)

STOP_SECONDS = 10.0
"""Seconds without an event after which a process that has to stop is killed; it has a checkpoint."""

KILL_SECONDS = 10.0
"""Most seconds to wait for the end of a killed process."""


class WorkerProcess(Protocol):
    """A process of a worker pool."""

    def is_alive(self) -> bool:
        """Return whether the process is running."""

    def kill(self) -> None:
        """Kill the process."""

    def join(self, seconds: float | None = None) -> None:
        """Wait until the process has ended, for at most so many seconds."""


class WorkerPool(Protocol):
    """Starts processes that run `finder.executors.worker_process.main`.

    Attributes:
        broker: The message broker between the processes and this one.
    """

    broker: MessageBroker

    def start(self, number: int) -> WorkerProcess:
        """Start a process."""

    def wait(self, processes: Sequence[WorkerProcess]) -> None:
        """Wait for a short time, or until a process has sent an event or has ended."""

    def cause(self, process: Any) -> str:
        """Return why a process of this pool has ended, as the end of a sentence."""


@dataclass
class Worker:
    """A worker process, and what its parent knows of it and its trials."""

    process: WorkerProcess
    batch: list[TrialSpec] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    rung: tuple[int, dict[int, dict[int, float]]] | None = None  # waits here: steps and values
    last_contact: float | None = None  # None until it runs: it may wait for a place in a cluster
    started: bool = False  # whether its batch has sent an event: it sends none while it builds agents
    hung: bool = False  # whether it hung and was killed
    suspects: dict[int, str] = field(default_factory=dict)  # the trial in which it hung -> the message
    structures: list[tuple[Any, ...]] = field(default_factory=list)  # that it keeps compiled, newest first


class Workers(dict[int, Worker]):
    """The processes of a pool, by number. Those of populations are kept from one run of trials to the next.

    Args:
        pool: Starts processes.
    """

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__()
        self.pool, self.broker = pool, pool.broker
        self._n_started = 0

    def start(self) -> int:
        """Start a process, and return its number."""
        number, self._n_started = self._n_started, self._n_started + 1
        self[number] = Worker(self.pool.start(number))
        return number

    def forget_dead(self) -> None:
        """Forget processes that have died."""
        for number in [number for number, worker in self.items() if not worker.process.is_alive()]:
            del self[number]

    def end_idle(self) -> None:
        """End the processes that run no trials."""
        idle = [number for number, worker in self.items() if not worker.running]
        for number in idle:
            self.broker.send_batch(number, None)
        for number in idle:
            process = self.pop(number).process
            process.join(STOP_SECONDS)
            kill_processes([process])

    def close(self) -> None:
        """End all processes; none of them is running a trial."""
        with defer_interrupts():
            try:
                self.end_idle()
            except (OSError, EOFError):  # the broker has ended: no message reaches them
                self.kill_all()

    def kill_all(self) -> None:
        """Kill and forget all processes."""
        kill_processes(worker.process for worker in self.values())
        self.clear()


def kill_processes(processes: Iterable[WorkerProcess]) -> None:
    """Kill those processes that are running. One that waits for a device or a network disk remains until then."""
    running = [process for process in processes if process.is_alive()]
    for process in running:
        process.kill()
    for process in running:
        process.join(KILL_SECONDS)
    if left := sum(process.is_alive() for process in running):
        log.warning("%d killed processes have not ended yet: they wait in the operating system.", left)
