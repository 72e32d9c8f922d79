"""Cores and free memory of this machine, within the limits of its container."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def cores() -> int:
    """Return the number of cores that this process may use, >= 1."""
    try:
        there = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        there = os.cpu_count() or 1
    quota, _, period = _read_text(_CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        there = min(there, math.ceil(int(quota) / int(period)))
    return max(1, there)


def free_memory() -> int | None:
    """Return the free memory in bytes, or None if it is unknown."""
    known = [value for value in (_free_on_system(), _free_in_container()) if value is not None]
    return min(known, default=None)


def _free_on_system() -> int | None:
    for line in _read_text(_MEMINFO).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _free_in_container() -> int | None:
    limit, used = _read_text(_CGROUP / "memory.max"), _read_text(_CGROUP / "memory.current")
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
