"""Variables in one process, gradients in others: `tf.distribute.ParameterServerStrategy` on this machine.

The process that trains an agent is the coordinator: it sends each worker its share of a minibatch, waits for all of
them, and makes the optimizer step with the sum of their gradients. So results equal those of one process; if a worker
dies, the other workers take its share.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.tensorflow import tf
from agents.buffers import Batches
from agents.distributed.loopback import (
    cluster_environment,
    exit_with_parent,
    free_addresses,
    loopback_only,
    make_strategy,
    start,
)
from agents.distributed.team import Buildable, Built
from agents.updates.gradient_steps import GradientSteps
from agents.updates.packing import layout_of


@functools.cache
def servers_of(n_workers: int) -> Servers:
    """Return the servers of this process, which are started once."""
    return Servers(n_workers)


class Servers:
    """A parameter server, some workers, and this process as their coordinator.

    Args:
        n_workers: Number of workers, at least 1.

    Raises:
        ConfigurationError: TensorFlow is initialized already in this process.
    """

    def __init__(self, n_workers: int) -> None:
        addresses = free_addresses(n_workers + 2)
        cluster = {"chief": addresses[:1], "ps": addresses[1:2], "worker": addresses[2:]}
        roles = [("ps", 0), *(("worker", index) for index in range(n_workers))]
        self._processes = [start("agents.distributed.parameter_servers", cluster, role, index) for role, index in roles]
        with cluster_environment(cluster, "chief", 0):
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            self.strategy: Any = make_strategy(lambda: tf.distribute.ParameterServerStrategy(resolver))
        self.coordinator: Any = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.n_workers = n_workers

    def build(self, spec: Buildable, seed: int) -> Any:
        """Build an agent with its variables on the parameter server."""
        with self.strategy.scope():
            agent = spec.build(seed)
        agent.team = self
        return agent

    def update_of(self, agent: Built, watched: Sequence[Any]) -> ServedUpdate:
        """Return the update of the agent."""
        return ServedUpdate(self, agent, watched)


class ServedUpdate(GradientSteps):
    """An update that makes gradient steps one by one, with the parts of a minibatch computed in parallel by workers.

    Args:
        servers: The workers and their coordinator.
        agent: The agent.
        watched: Variables whose values are returned after the update, as one flat vector.
    """

    def __init__(self, servers: Servers, agent: Built, watched: Sequence[Any]) -> None:
        super().__init__(agent.learnable())
        self._servers, self._watched = servers, watched
        optimizer_step = self._parts.only_optimizer_step()
        self._gradients_of_part = _traced(functools.partial(self._gradients, optimizer_step))
        self._preprocess_minibatch = _traced(self._parts.preprocess_minibatch)
        self._move = _traced(self._with_sum)
        self._after_step = _traced(functools.partial(self._after, optimizer_step))

    def __call__(self, batches: Batches) -> tuple[dict[str, Any], Any]:
        """Return (name -> [K] values of each gradient step, flat values of the watched variables)."""
        layout = layout_of(batches.data, contiguous=False)
        kinds = {column.name: column.dtype for column in layout.packed}
        data = {name: values.astype(kinds.get(name, values.dtype)) for name, values in batches.data.items()}
        history = []
        for rows in batches.indices:
            minibatch = self._preprocess_minibatch({name: tf.constant(values[rows]) for name, values in data.items()})
            history.append(self._step_of(minibatch, len(rows)))
        watched = [variable.numpy().ravel() for variable in self._watched]
        values = np.stack(history)
        return dict(zip(self.names, values.T, strict=True)), np.concatenate(watched) if watched else np.zeros(0)

    def _step_of(self, minibatch: dict[str, Any], n_rows: int) -> Any:
        n_parts = min(self._servers.n_workers, n_rows)
        ends = [part * n_rows // n_parts for part in range(n_parts + 1)]
        pending = [
            self._servers.coordinator.schedule(
                self._gradients_of_part,
                args=(
                    {name: values[first:end] for name, values in minibatch.items()},
                    tf.constant((end - first) / n_rows, tf.float32),
                ),
            )
            for first, end in itertools.pairwise(ends)
        ]
        results = [each.fetch() for each in pending]
        self._move([gradients for _, gradients in results])
        losses = np.sum([list(losses.values()) for losses, _ in results], axis=0)
        after = self._after_step(minibatch)
        self.names = (*results[0][0], *after)
        return np.concatenate([losses, np.array(list(after.values()), losses.dtype)])

    def _with_sum(self, parts: list[dict[str, list[Any]]]) -> None:
        for name in parts[0]:
            of_parts = zip(*(part[name] for part in parts), strict=True)
            self._apply(name, [tf.add_n(list(each)) for each in of_parts])
        self._parts.gradient_steps.assign_add(1)
        self._update_targets()


def _traced(run: Callable[..., Any]) -> Any:
    """Return the function as a TensorFlow function; its custom gradients are deleted with its graphs."""

    def owning(*arguments: Any) -> Any:
        with owned_gradients():
            return run(*arguments)

    return tf.function(owning, autograph=False, reduce_retracing=True)


def main() -> None:
    """Run a parameter server or a worker, until the process that started it ends."""
    exit_with_parent(sys.stdin.buffer.read)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    with loopback_only():
        server = tf.distribute.Server(
            resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc", start=True
        )
    server.join()


if __name__ == "__main__":
    main()
