"""Folders that benchmarks read and write."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BENCHMARKS = REPOSITORY / "benchmarks"
RESULTS = BENCHMARKS / "results"
TABLES = BENCHMARKS / "tables"
PEERS = BENCHMARKS / "peers"
"""Scripts that run in the environments of peers."""

ENVIRONMENTS = BENCHMARKS / "environments"
"""Modules that register environments; in PYTHONPATH, `--env new_environments:Tanks-v0` finds them."""


def python_path(*folders: Path) -> str:
    """Return PYTHONPATH with these folders before those that it has."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
