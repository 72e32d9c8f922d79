"""The free memory of this machine, within the limits of its container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agents.backend.cores import cgroup_folders, read_text

_MEMINFO = Path("/proc/meminfo")
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files with the limit and the use of a control group, and the name of its unused page cache in `memory.stat`, of
versions 2 and 1."""


def free_memory() -> int | None:
    """Return the free memory in bytes, or None if it is unknown."""
    known = (_free_on_system(), *_free_in_containers())
    return min((value for value in known if value is not None), default=None)


def _free_on_system() -> int | None:
    for line in read_text(_MEMINFO).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _free_in_containers() -> Iterator[int]:
    for folder in cgroup_folders("memory"):
        for limit_file, used_file, cache_name in _MEMORY_FILES:
            limit, used = read_text(folder / limit_file), read_text(folder / used_file)
            if limit.isdigit() and used.isdigit():
                yield max(0, int(limit) - int(used) + _cache_of(folder, cache_name))


def _cache_of(folder: Path, name: str) -> int:
    """Return the bytes of the page cache that a control group uses and would give up."""
    for line in read_text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
