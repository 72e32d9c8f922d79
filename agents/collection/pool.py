"""A pool of collector processes as data: number, engine, and whether collection waits for updates."""

from __future__ import annotations

from dataclasses import dataclass

from agents.errors import ConfigurationError, unknown_name

UPDATES = ("sync", "async")
ENGINES = ("process", "ray")


@dataclass(frozen=True)
class Pool:
    """Processes that step environments for one agent.

    A pool pays for environments with slow steps (from some tenths of a millisecond): each process acts with a copy of
    the agent in its share of the `n_envs` environments, for a whole chunk of steps at a time. A run is reproducible for
    a seed and a number of processes; another number gives another run, since each process has its own exploration
    stream.

    Attributes:
        processes: Number of processes, >= 1 and at most the agent's `n_envs`.
        updates: ``"sync"``: processes wait during updates, and act with the newest weights. ``"async"``: they collect
            during updates, with weights that are up to two chunks old; for agents with a replay buffer.
        engine: ``"process"``: processes of this machine, with transitions in shared memory. ``"ray"``: actors of the
            Ray cluster of `RAY_ADDRESS`, or of one on this machine.
        chunk: With ``"async"``, steps per environment in a chunk, >= 1. Defaults to None: 16. (With ``"sync"`` a chunk
            has the steps up to the next update; with an update at every step, as for DQN's default `train_freq`,
            processes gain little.)
        cpus: With ``"ray"``, CPUs that each process requests, >= 0. Defaults to None: 1. Less is enough for
            environments that wait more than they compute.

    Raises:
        ConfigurationError: A value is out of range or unknown.
    """

    processes: int
    updates: str = "sync"
    engine: str = "process"
    chunk: int | None = None
    cpus: float | None = None

    def __post_init__(self) -> None:
        """Refuse unknown values and values out of range."""
        if isinstance(self.processes, bool) or not isinstance(self.processes, int):
            raise ConfigurationError(f"A pool is a number of processes or an agents.Pool, got {self.processes!r}.")
        if self.processes < 1:
            raise ConfigurationError(f"A pool needs at least one process, got {self.processes}.")
        if self.chunk is not None and (self.chunk < 1 or self.updates == "sync"):
            raise ConfigurationError(
                f"chunk is the number of steps (>= 1) collected at a time with updates='async'; got {self.chunk} with "
                f"{self.updates!r}."
            )
        if self.cpus is not None and (self.cpus < 0 or self.engine != "ray"):
            raise ConfigurationError(
                f"cpus is what each process requests of Ray (>= 0, engine='ray'); got {self.cpus} with {self.engine!r}."
            )
        if self.updates not in UPDATES:
            raise unknown_name("way of a pool's updates", self.updates, UPDATES)
        if self.engine not in ENGINES:
            raise unknown_name("engine of a pool", self.engine, ENGINES)

    @classmethod
    def of(cls, value: int | Pool) -> Pool:
        """Return a pool of a number of processes, or the given pool."""
        return value if isinstance(value, Pool) else cls(value)
