"""`tf.distribute` strategies, by name and as objects: the devices on which an agent learns.

With any strategy a minibatch is the same: each replica learns from its part of the minibatch, and the sum of the
gradients is the gradient of the complete minibatch. So a strategy changes only where arithmetic is done, and results
only up to float error.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any

from agents.distributed.team import Buildable
from agents.errors import ConfigurationError, unknown_name

STRATEGIES = ("none", "one-device", "mirrored", "multi-worker-mirrored", "parameter-server")
"""Names of strategies."""

_NAMES = {
    "_DefaultDistributionStrategy": "none",
    "OneDeviceStrategy": "one-device",
    "MirroredStrategy": "mirrored",
    "CollectiveAllReduceStrategy": "multi-worker-mirrored",
    "MultiWorkerMirroredStrategy": "multi-worker-mirrored",
    "ParameterServerStrategy": "parameter-server",
    "ParameterServerStrategyV2": "parameter-server",
}
"""TensorFlow's class name -> name of the strategy."""

_OF_CLASSES = {name.lower(): own for name, own in _NAMES.items()}

_REPLICAS = 2


@dataclass(frozen=True)
class StrategySpec:
    """A strategy as data: ``"none"``, ``"one-device"``, ``"mirrored"``, ``"mirrored:4"``, ...

    `mirrored` splits minibatches across devices of this process; `multi-worker-mirrored` across worker processes, which
    are started for it (`agents.distributed.multi_worker`); `parameter-server` too, with the variables in one further
    process (`agents.distributed.parameter_servers`).

    Attributes:
        name: One of `STRATEGIES`.
        replicas: Number of parts of a minibatch.
    """

    name: str = "none"
    replicas: int = 1

    @classmethod
    def of(cls, strategy: Any) -> StrategySpec:
        """Return the specification of a strategy.

        Args:
            strategy: A name, or the name of the class in `tf.distribute`, optionally followed by a colon and the number
                of replicas (default 2); a `tf.distribute` strategy, of which the kind and the number of replicas are
                taken (of a parameter-server strategy the number of workers), not the devices; or None for none.

        Raises:
            ConfigurationError: The name is unknown, or the strategy cannot have that number of replicas.
        """
        if isinstance(strategy, StrategySpec):
            return strategy
        if strategy is not None and not isinstance(strategy, str):
            return cls._of_object(strategy)
        text = strategy or "none"
        name, _, given = text.partition(":")
        name = name.strip().lower()
        name = _OF_CLASSES.get(name, name)
        if name not in STRATEGIES:
            raise unknown_name("strategy", name, STRATEGIES)
        if name in ("none", "one-device"):
            if given:
                raise ConfigurationError(f"The strategy {name!r} has one replica: leave out ':{given}'.")
            return cls(name, 1)
        if given and (not given.isdecimal() or int(given) < 1):
            raise ConfigurationError(f"The strategy {text!r} has no number of replicas: write {name}:2.")
        return cls(name, int(given or _REPLICAS))

    @classmethod
    def _of_object(cls, strategy: Any) -> StrategySpec:
        name = next((_NAMES[each.__name__] for each in type(strategy).__mro__ if each.__name__ in _NAMES), None)
        if name is None:
            raise ConfigurationError(
                f"A {type(strategy).__name__} is not a known strategy: give one of {', '.join(STRATEGIES)}."
            )
        if name in ("none", "one-device"):
            return cls(name, 1)
        # Workers of a parameter-server strategy are not synchronized, so each counts as one replica "in sync".
        workers = getattr(strategy, "_num_workers", 1) if name == "parameter-server" else 1
        return cls(name, max(strategy.num_replicas_in_sync, workers))

    def __str__(self) -> str:
        return f"{self.name}:{self.replicas}" if self.name not in ("none", "one-device") else self.name

    @property
    def is_none(self) -> bool:
        """True if the agent learns without a strategy."""
        return self.name == "none"

    @property
    def has_processes(self) -> bool:
        """True if it starts a process for each replica."""
        return self.name in ("multi-worker-mirrored", "parameter-server")

    def build(self, agent: Buildable, seed: int) -> Any:
        """Build an agent that learns with the strategy.

        Raises:
            ConfigurationError: TensorFlow is already initialized with fewer devices.
        """
        if self.name == "multi-worker-mirrored":
            from agents.distributed.multi_worker import team_of

            return team_of(self.replicas).build(agent, seed)
        if self.name == "parameter-server":
            from agents.distributed.parameter_servers import servers_of

            return servers_of(self.replicas).build(agent, seed)
        with contextlib.nullcontext() if self.is_none else _strategy(self).scope():
            return agent.build(seed)


@functools.cache
def _strategy(spec: StrategySpec) -> Any:
    """Return the strategy, which all agents of a process share."""
    from agents.backend.tensorflow import tf

    if spec.name == "one-device":
        gpus = tf.config.list_logical_devices("GPU")
        return tf.distribute.OneDeviceStrategy(gpus[0].name if gpus else "/cpu:0")
    devices = _devices(spec.replicas)
    # CPUs sum on one device: TensorFlow's collectives take one number of replicas a process.
    sums = tf.distribute.ReductionToOneDevice() if "cpu" in devices[0] else None
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=sums)


def _devices(n: int) -> list[str]:
    """Return the names of `n` devices: GPUs if there are enough, else logical devices of the CPU."""
    from agents.backend.tensorflow import tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) >= n:
        return [f"/gpu:{index}" for index in range(n)]
    cpu = tf.config.list_physical_devices("CPU")[0]
    with contextlib.suppress(RuntimeError):  # TensorFlow is already initialized: its devices are fixed
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * n)
    there = len(tf.config.list_logical_devices("CPU"))
    if there < n:
        raise ConfigurationError(
            f"TensorFlow already runs with {there} CPU device(s) in this process, and {n} are needed: choose the "
            "strategy before anything is built, or let a study train in processes of its own (--executor process)."
        )
    return [f"/cpu:{index}" for index in range(n)]
