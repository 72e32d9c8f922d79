"""Collector processes of this machine; transitions and acting state are in shared memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle
import multiprocess
from multiprocess.connection import wait

from agents.backend.threads import threads_for
from agents.collection.engine import Engine, ProcessEnded
from agents.collection.shared_arrays import arrays_in, size_of
from agents.collection.worker import Array, Shapes, Task
from agents.contract.pickling import pickled
from agents.errors import ConfigurationError
from agents.processes.ending import end
from agents.processes.fork_server import await_fork_server, prepare_processes, start_child

_SECONDS_TO_END = 5.0


class ProcessEngine(Engine):
    """Run collector processes of this machine, forked from a server that has imported TensorFlow.

    Args:
        n: Number of processes; each gets an equal share of the cores.
        rows: Shapes of transitions.
        acting: Shapes of the acting state.

    Raises:
        ConfigurationError: This process must not have children.
    """

    def __init__(self, n: int, rows: Shapes, acting: Shapes) -> None:
        if multiprocess.current_process().daemon:
            raise ConfigurationError("A trial in a worker process cannot have a pool: use the inline executor.")
        self._context = prepare_processes("agents.collection.child")
        await_fork_server(self._context)
        self._blocks = [(self._context.RawArray("b", size_of(shapes)), shapes) for shapes in (rows, acting)]
        self.rows, self._acting = (arrays_in(*block) for block in self._blocks)
        self._threads = threads_for(n)
        self._processes: dict[int, Any] = {}
        self._pipes: dict[int, Any] = {}

    def start(self, task: Task) -> None:
        from agents.collection.child import main

        own, other = self._context.Pipe()
        process = start_child(
            self._context, main, pickled(task.agent, task), other, self._blocks,
            threads=self._threads, name=f"collector-{task.index}",
        )  # fmt: skip
        other.close()  # so that the child has the only open end, and its death closes the pipe
        self._processes[task.index], self._pipes[task.index] = process, own

    def publish(self, acting: Sequence[Array]) -> None:
        for shared, values in zip(self._acting.values(), acting, strict=True):
            shared[...] = values

    def ask(self, index: int, method: str, *arguments: Any) -> None:
        with contextlib.suppress(OSError):  # `answer` reports a process that has ended
            self._pipes[index].send_bytes(cloudpickle.dumps((method, arguments)))

    def answer(self, index: int) -> Any:
        pipe, process = self._pipes[index], self._processes[index]
        try:
            # Processes that its environment started may keep the pipe open after its end.
            if pipe not in wait([pipe, process.sentinel]):
                raise EOFError
            raised, answer = cloudpickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            end(process, _SECONDS_TO_END)
            raise ProcessEnded(f"exit code {process.exitcode}") from None
        if raised:
            raise answer
        return answer

    def close(self) -> None:
        for pipe in self._pipes.values():
            pipe.close()  # the processes end when their pipe is closed
        until = time.monotonic() + _SECONDS_TO_END
        for process in self._processes.values():
            end(process, max(0.0, until - time.monotonic()))
