"""Collector processes as actors of a Ray cluster: the extra `ray`."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.collection.engine import Engine, ProcessEnded
from agents.collection.worker import Array, CollectorWorker, Shapes, Task
from agents.contract.pickling import pickled, unpickled
from agents.errors import ConfigurationError, portable
from agents.shared_objects import address_for_actors, use_address
from agents.shared_objects.ray_connection import connected_ray, first_line, get_result

_SECONDS_FOR_ROOM = 10.0


class RayEngine(Engine):
    """Run collector processes as Ray actors, which Ray distributes over its machines.

    Args:
        n: Number of actors.
        cpus: CPUs that each actor requests.
        rows: Shapes of transitions.
        acting: Shapes of the acting state.

    Raises:
        ConfigurationError: Ray is not installed or not reachable, or has not enough free CPUs.
    """

    def __init__(self, n: int, cpus: float, rows: Shapes, acting: Shapes) -> None:
        self._ray = connected_ray("A pool's engine 'ray'")
        self._cpus = cpus
        self._await_room(n)
        self.rows = {name: np.zeros(shape, dtype) for name, (shape, dtype) in rows.items()}
        self._actors: dict[int, Any] = {}
        self._tasks: dict[int, Task] = {}
        self._questions: dict[int, deque[tuple[Any, int | None]]] = {}
        self._acting: Any = None

    def _await_room(self, n: int) -> None:
        """Wait for CPUs that are about to be released."""
        until = time.monotonic() + _SECONDS_FOR_ROOM
        while (free := self._ray.available_resources().get("CPU", 0)) < n * self._cpus:
            if time.monotonic() > until:
                raise ConfigurationError(
                    f"A pool of {n} processes requests {n * self._cpus:g} CPUs of the Ray cluster, and {free:g} are "
                    f"free: use fewer processes, or let each request less, such as Pool({n}, engine='ray', cpus=0.5)."
                )
            time.sleep(0.1)

    def start(self, task: Task) -> None:
        options = {"num_cpus": self._cpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self._actors[task.index] = (
            self._ray.remote(_Actor).options(**options).remote(pickled(task.agent, task), address_for_actors())
        )
        self._tasks[task.index] = task
        self._questions[task.index] = deque()

    def publish(self, acting: Sequence[Array]) -> None:
        self._acting = self._ray.put(list(acting))

    def ask(self, index: int, method: str, *arguments: Any) -> None:
        actor, slot = self._actors[index], None
        if method == "collect":
            slot, n_steps = arguments
            reference = actor.collect.remote(n_steps, self._acting)
        else:
            reference = actor.do.remote(method, arguments)
        self._questions[index].append((reference, slot))

    def answer(self, index: int) -> Any:
        reference, slot = self._questions[index].popleft()
        try:
            raised, answer = get_result(reference)
        except self._ray.exceptions.RayError as error:
            raise ProcessEnded(first_line(error)) from None
        if raised:
            raise answer
        if slot is None:
            return answer
        rows, report = answer
        copies = self._tasks[index].copies
        for name, values in rows.items():
            self.rows[name][slot, : report.n_steps, copies.start : copies.stop] = values
        return report

    def close(self) -> None:
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor, no_restart=True)


class _Actor:
    """A collector process, whose worker is made at the first request: an error of its construction is an answer."""

    def __init__(self, payload: bytes, address: str) -> None:
        self._payload, self._address = payload, address
        self._worker: Any = None

    def _make_worker(self) -> Any:
        if self._worker is None:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            use_address(self._address)
            self._worker = CollectorWorker(unpickled(self._payload))
        return self._worker

    def collect(self, n_steps: int, acting: Sequence[Array]) -> tuple[bool, Any]:
        """Make steps; return them with their transitions [T, n, ...]."""
        return self.do("collected", (n_steps, acting))

    def do(self, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Call a method; return whether it raised an error, and its result or that error."""
        try:
            return False, getattr(self._make_worker(), method)(*arguments)
        except Exception as error:  # noqa: BLE001 - any error is sent to the learner
            return True, portable(error)
