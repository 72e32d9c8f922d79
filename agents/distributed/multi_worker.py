"""Processes on this machine that compute gradients together: `tf.distribute.MultiWorkerMirroredStrategy`.

The process that trains an agent is the first worker. It starts the other workers, has each of them build the same
agent, and sends them every minibatch and, after any other change, the values of all variables. So the other workers
need no environments, and their variables always equal those of the first worker.
"""

from __future__ import annotations

import functools
import pickle
import struct
import sys
from collections.abc import Sequence
from queue import SimpleQueue
from typing import IO, Any

import cloudpickle

from agents.backend.variables import assign_all, digest_of, values_of
from agents.buffers import Batches
from agents.distributed.loopback import (
    cluster_environment,
    exit_with_parent,
    free_addresses,
    loopback_only,
    make_strategy,
    start,
)
from agents.distributed.replicas import DistributedSteps
from agents.distributed.team import Buildable, Built, Update
from agents.trust.loading import FILE_MODULE, module_of
from agents.updates.compiled import CompiledUpdate

_LENGTH = struct.Struct(">Q")


@functools.cache
def team_of(n_workers: int) -> Team:
    """Return the team of this process; a process has only one."""
    return Team(n_workers)


class Team:
    """The workers of a strategy: this process as the first worker, and the processes that it starts.

    Args:
        n_workers: Number of workers, this process included; at least 1.

    Raises:
        ConfigurationError: TensorFlow is initialized already in this process.
    """

    def __init__(self, n_workers: int) -> None:
        from agents.backend.tensorflow import tf

        cluster = {"worker": free_addresses(n_workers)}
        self._others = [
            start("agents.distributed.multi_worker", cluster, "worker", index) for index in range(1, n_workers)
        ]
        with cluster_environment(cluster, "worker", 0):
            self.strategy: Any = make_strategy(tf.distribute.MultiWorkerMirroredStrategy)
        self._n_agents = 0

    def build(self, spec: Buildable, seed: int) -> Any:
        """Build an agent in all workers at the same time; all workers compute its updates together."""
        number, self._n_agents = self._n_agents, self._n_agents + 1
        self.send(("build", number, _files_of_user(), cloudpickle.dumps((spec, seed))))
        with self.strategy.scope():
            agent = spec.build(seed)
        agent.team = Member(self, number)
        return agent

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message to the other workers."""
        payload = cloudpickle.dumps(message)
        for other in self._others:
            assert other.stdin is not None
            try:
                other.stdin.write(_LENGTH.pack(len(payload)))
                other.stdin.write(payload)
                other.stdin.flush()
            except OSError as error:
                raise RuntimeError(f"A worker of the strategy has ended (exit code {other.poll()}).") from error


class Member:
    """One agent of a team, in the first worker."""

    def __init__(self, team: Team, number: int) -> None:
        self._team, self._number = team, number
        self._known: int | None = None

    def update_of(self, agent: Built, watched: Sequence[Any]) -> Update:
        """Return the update of the agent, which runs here and in the other workers."""
        steps = DistributedSteps(agent.learnable(), self._team.strategy)
        local_update = CompiledUpdate(steps, watched, agent.should_use_xla, **agent.compilation())

        def update(batches: Batches) -> tuple[dict[str, Any], Any]:
            values = values_of(agent.state_variables())
            changed = values if digest_of(values) != self._known else None
            self._team.send(("update", self._number, batches, changed))
            result = local_update(batches)
            self._known = digest_of(values_of(agent.state_variables()))
            return result

        return update


def _files_of_user() -> list[str]:
    """Return the files that were loaded as modules: an agent may refer to their classes, which are not importable."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(FILE_MODULE)]
    return [module.__file__ for module in modules if module.__file__ is not None]


def _work(messages: SimpleQueue[tuple[Any, ...]]) -> None:
    """Build and update agents as another worker, until the first worker ends."""
    from agents.backend.tensorflow import tf

    with loopback_only():
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    agents: dict[int, Any] = {}
    while True:
        kind, number, *content = messages.get()
        if kind == "build":
            files, packed = content
            for file in files:
                module_of(file)
            spec, seed = pickle.loads(packed)
            with strategy.scope():
                agents[number] = spec.build(seed)
            continue
        batches, changed = content
        if changed is not None:
            assign_all(agents[number].state_variables(), changed)
        agents[number].update(batches)


def _listen(stream: IO[bytes], messages: SimpleQueue[tuple[Any, ...]]) -> None:
    """Queue the messages of the first worker, until its end of the pipe is closed."""
    while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
        [length] = _LENGTH.unpack(head)
        payload = stream.read(length)
        if len(payload) < length:
            break
        messages.put(pickle.loads(payload))


def main() -> None:
    """Run another worker."""
    messages: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    exit_with_parent(lambda: _listen(sys.stdin.buffer, messages))
    _work(messages)


if __name__ == "__main__":
    main()
