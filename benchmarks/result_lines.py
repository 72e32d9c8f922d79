"""Results of benchmarks that can be interrupted: lines of JSON, which are not measured again, and tables of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"), "1"
)
"""Environment variables of a process of one thread."""


def read_lines(path: Path) -> list[Json]:
    """Return the lines so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append_lines(path: Path, *rows: Json) -> None:
    """Append lines."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_table(path: Path, lines: Sequence[str]) -> None:
    """Write a table, and print it."""
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def counted(states: Iterable[str]) -> dict[str, int]:
    """Return how often each state occurs, in lower case."""
    lower = [state.lower() for state in states]
    return {state: lower.count(state) for state in sorted(set(lower))}
