"""How a trial is run on its machine: facts that are recorded with its configuration."""

from __future__ import annotations

import os
from typing import Any

from agents.backend.cores import cores
from agents.backend.threads import threads_in_use

KEY = "execution"
"""Key in the configuration of a trial."""


def execution_of(agent: Any, n_members: int) -> dict[str, Any]:
    """Return how this process runs a trial, as JSON values.

    Args:
        agent: The agent of the trial, or one of them.
        n_members: Runs that are trained together at its start: the members of its population; 1 for a single agent.

    Returns:
        - ``members``: see `n_members`,
        - ``threads``: threads of TensorFlow for an operation,
        - ``cores``: cores that the process may use,
        - ``jit_compile``: whether XLA compiles updates where it pays; None for agents that do not tell,
        - ``xla_flags``: the options in ``XLA_FLAGS``, without ``--xla_``.
    """
    compilation = getattr(agent, "compilation", None)
    return {
        "members": n_members,
        "threads": threads_in_use(),
        "cores": cores(),
        "jit_compile": None if compilation is None else bool(compilation()["jit_compile"]),
        "xla_flags": [flag.removeprefix("--xla_") for flag in os.environ.get("XLA_FLAGS", "").split()],
    }


def with_executor(configuration: dict[str, Any], name: str, n_processes: int) -> dict[str, Any]:
    """Return a configuration with the name of the executor and its number of processes."""
    execution = {"processes": n_processes, **configuration.get(KEY, {})}
    return {**configuration, "executor": name, KEY: execution}
