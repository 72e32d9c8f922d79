"""A pool of collectors as data: how many processes there are, where, and whether they wait while the agent learns."""

from __future__ import annotations

from dataclasses import dataclass

from agents.errors import ConfigurationError, unknown_name

UPDATES = ("sync", "async")
ENGINES = ("process", "ray")


@dataclass(frozen=True)
class Pool:
    """Processes that step environments for one agent that learns.

    Worth it where a step of the environment is slow (from some tenths of a millisecond on): each process acts with a
    copy of the agent in its share of the `n_envs` copies, for a whole chunk of steps at a time. The same seed and
    number of processes give the same run; another number gives another one, since each process draws its own
    exploration.

    Attributes:
        processes: How many, >= 1, and at most the agent's `n_envs`.
        updates: ``"sync"``: they wait while the agent learns, and act with its newest weights. ``"async"``: they go on
            while it learns, with weights that are up to two chunks old; for agents that learn from a replay.
        engine: ``"process"``: processes of this machine, whose transitions come through shared memory. ``"ray"``:
            actors of the Ray cluster that `RAY_ADDRESS` names, or of one on this machine.
        chunk: With ``"async"``, steps of each copy that are collected at a time, >= 1. Defaults to None: 16. (With
            ``"sync"`` there are as many as the agent wants until it learns; where that is every step, as DQN's
            `train_freq` has it by default, processes gain little.)
        cpus: With ``"ray"``, CPUs that each process asks for, >= 0. Defaults to None: 1. Less will do where
            environments wait more than they compute.

    Raises:
        ConfigurationError: A value that is out of range or not known.
    """

    processes: int
    updates: str = "sync"
    engine: str = "process"
    chunk: int | None = None
    cpus: float | None = None

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        if isinstance(self.processes, bool) or not isinstance(self.processes, int):
            raise ConfigurationError(f"A pool is a number of processes or an agents.Pool, got {self.processes!r}.")
        if self.processes < 1:
            raise ConfigurationError(f"A pool needs at least one process, got {self.processes}.")
        if self.chunk is not None and (self.chunk < 1 or self.updates == "sync"):
            raise ConfigurationError(
                f"chunk says how many steps (>= 1) are collected at a time with updates='async'; got {self.chunk} with "
                f"{self.updates!r}."
            )
        if self.cpus is not None and (self.cpus < 0 or self.engine != "ray"):
            raise ConfigurationError(
                f"cpus says what each process asks of Ray (>= 0, engine='ray'); got {self.cpus} with {self.engine!r}."
            )
        if self.updates not in UPDATES:
            raise unknown_name("way of a pool's updates", self.updates, UPDATES)
        if self.engine not in ENGINES:
            raise unknown_name("engine of a pool", self.engine, ENGINES)

    @classmethod
    def of(cls, value: int | Pool) -> Pool:
        """A pool from a number of processes, or as it is."""
        return value if isinstance(value, Pool) else cls(value)
