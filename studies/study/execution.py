"""How a trial was run (executor, processes, members, threads, cores, XLA), in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies.words import counted


def execution_text(configuration: Mapping[str, Any]) -> str:
    """Return how a trial was run; empty for trials of earlier versions, which did not record it.

    Args:
        configuration: Configuration of the trial.

    Returns:
        A line such as ``population of 24 members, 2 processes, 1 thread each, 2 cores, XLA
        (cpu_prefer_vector_width=512)``.
    """
    execution = configuration.get("execution")
    if not isinstance(execution, Mapping):
        return ""
    name, members = str(configuration.get("executor", "")), _count(execution, "members")
    parts = [f"population of {counted(members, 'member')}" if members and name == "population" else name]
    processes, threads, cores = (_count(execution, key) for key in ("processes", "threads", "cores"))
    if processes:
        parts.append(f"{processes:,} {'process' if processes == 1 else 'processes'}")
    if threads:
        parts.append(counted(threads, "thread") + (" each" if processes > 1 else ""))
    if cores:
        parts.append(counted(cores, "core"))
    if isinstance(execution.get("jit_compile"), bool):
        flags = execution.get("xla_flags")
        given = f" ({', '.join(map(str, flags))})" if isinstance(flags, list) and flags else ""
        parts.append(f"XLA{given}" if execution["jit_compile"] else "no XLA")
    return ", ".join(part for part in parts if part)


def _count(execution: Mapping[str, Any], key: str) -> int:
    value = execution.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
