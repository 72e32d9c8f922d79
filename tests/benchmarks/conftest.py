"""Modules of benchmarks are found in the repository, and their environments in a folder of it."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "benchmarks" / "environments")]
