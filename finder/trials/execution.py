"""How a trial is run on its machine: facts that are recorded with its configuration."""

from __future__ import annotations

import os
from typing import Any

from agents.backend.cores import cores
from agents.backend.threads import threads_in_use

KEY = "execution"
"""Key in the configuration of a trial."""


def execution_of(n_members: int, jit_compile: bool | None) -> dict[str, Any]:
    """Return how this process runs a trial, as JSON values.

    Args:
        n_members: Runs that are trained together at its start: the members of its population; 1 for a single agent.
        jit_compile: Whether XLA compiles updates where it pays; None if that is unknown (`jit_compile_of`).

    Returns:
        - ``members``: see `n_members`,
        - ``threads``: threads of TensorFlow for an operation,
        - ``cores``: cores that the process may use,
        - ``jit_compile``: see `jit_compile`,
        - ``xla_flags``: the options in ``XLA_FLAGS``, without ``--xla_``.
    """
    return {
        "members": n_members,
        "threads": threads_in_use(),
        "cores": cores(),
        "jit_compile": jit_compile,
        "xla_flags": [flag.removeprefix("--xla_") for flag in os.environ.get("XLA_FLAGS", "").split()],
    }


def jit_compile_of(agent: Any) -> bool | None:
    """Return whether XLA compiles the updates of a single agent where it pays; None if the agent does not know."""
    compilation = getattr(agent, "compilation", None)
    return None if compilation is None else bool(compilation()["jit_compile"])


def with_executor(configuration: dict[str, Any], name: str, n_processes: int) -> dict[str, Any]:
    """Return a configuration with the name of the executor and its number of processes."""
    execution = {"processes": n_processes, **configuration.get(KEY, {})}
    return {**configuration, "executor": name, KEY: execution}
