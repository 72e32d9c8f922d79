"""The process executor: trials run in worker processes of `multiprocess`.

Workers are forked from a fork server that has imported TensorFlow and not used it, so that a trial does not wait for
the import. They are never forked from a process in which TensorFlow has run.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from multiprocess.connection import wait

from agents.backend.threads import threads_for
from agents.errors import check_at_least
from agents.processes.fork_server import (
    await_fork_server,
    has_lost_server,
    prepare_processes,
    start_child,
    without_main_module,
)
from agents.processes.interrupts import defer_interrupts
from agents.processes.orphans import end_with_parent
from finder.executors.batches import Batching
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.executors.message_broker import BrokerManager, MessageBroker
from finder.executors.preparation import CHILD
from finder.executors.trial_dispatcher import TrialDispatcher
from finder.executors.worker_pool import Workers

POLL_SECONDS = 0.05


class ProcessExecutor(Executor):
    """Runs batches of trials in worker processes.

    The processes of populations, and the message broker, are kept until `close`: the confirmation of a search does not
    start and compile them again.

    Args:
        n_jobs: Number of processes, >= 1. Each gets an equal share of the cores.
        batching: Forms the batches that a process runs. Defaults to single trials, each in a process of its own;
            otherwise a process runs one batch after another and keeps compiled agents.
        keep_values: Whether the broker keeps all returns and losses (`MessageBroker.values`). Defaults to False.
    """

    def __init__(self, n_jobs: int = 1, batching: Batching | None = None, keep_values: bool = False) -> None:
        check_at_least(1, n_jobs=n_jobs)
        self.n_jobs = n_jobs
        self.batching = batching or Batching()
        self._keep_values = keep_values
        self._open = ExitStack()
        self._workers: Workers | None = None
        self.values: dict[str, Any] = {}
        """The `MessageBroker.values` at the end of the last run, of all trials."""

    @property
    def description(self) -> str:
        jobs = f"{self.n_jobs} processes" if self.n_jobs > 1 else "1 process"
        return f"{self.batching.description or 'a trial each'} in {jobs}"

    @property
    def n_processes(self) -> int:
        return self.n_jobs

    @property
    def trains_together(self) -> bool:
        return self.batching.members is not None

    def trials_at_once(self, n_seeds: int) -> int:
        return self.batching.trials_of(self.n_jobs, n_seeds)

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        try:
            self._workers = workers = self._workers or self._new_workers()
            TrialDispatcher(
                workers,
                listener,
                n_jobs=self.n_jobs,
                batching=self.batching,
                name=self.batching.name or "process",
            ).run(next_trial)
            self.values = workers.broker.values()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._workers = None
        self._open.close()

    def _new_workers(self) -> Workers:
        """Start the message broker, and return workers, none of which has started yet."""
        context = prepare_processes(CHILD)
        await_fork_server(context)
        manager = self._open.enter_context(_running(BrokerManager(ctx=context)))
        workers = Workers(_ForkedWorkerPool(context, manager.MessageBroker(self._keep_values), self.n_jobs))
        self._open.callback(workers.close)
        return workers


class _ForkedWorkerPool:
    """Starts worker processes of this process, forked from the fork server.

    Args:
        context: The context of `multiprocess`.
        broker: Proxy of the broker.
        n_jobs: Number of processes; each gets an equal share of the cores.
    """

    def __init__(self, context: Any, broker: MessageBroker, n_jobs: int) -> None:
        self.broker = broker
        self._context, self._n_jobs = context, n_jobs
        self._wakeups, self._wakeup_sender = context.Pipe(duplex=False)  # workers signal new events

    def start(self, number: int) -> Any:
        from finder.executors.worker_process import main

        return start_child(
            self._context, main, number, self.broker, self._wakeup_sender,
            threads=threads_for(self._n_jobs), name=f"worker-{number}",
        )  # fmt: skip

    def wait(self, processes: Sequence[Any]) -> None:
        wait([self._wakeups, *(process.sentinel for process in processes)], timeout=POLL_SECONDS)
        while self._wakeups.poll():
            self._wakeups.recv_bytes()

    def cause(self, process: Any) -> str:
        if has_lost_server(process):
            return "was ended with the fork server, which was killed (out of memory, perhaps)"
        code: int | None = process.exitcode
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = "an unknown signal"
            hint = " (out of memory, perhaps)" if -code == signal.SIGKILL else ""
            return f"was killed by signal {-code} ({name}){hint}"
        return f"ended with exit code {code} before its trial was done"


@contextmanager
def _running(manager: BrokerManager) -> Iterator[BrokerManager]:
    """Run a manager for the time of the block."""
    try:
        with defer_interrupts(), without_main_module():
            manager.start(initializer=end_with_parent)
        yield manager
    finally:
        if hasattr(manager, "shutdown"):  # only after its start
            manager.shutdown()
