"""The cores that this process may use: its affinity and the CPU quotas of its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Where control groups are mounted."""

_OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> int:
    """Return the number of cores that this process may use, >= 1; a quota of 1.5 cores counts as 2."""
    try:
        there = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        there = os.cpu_count() or 1
    return min(there, cores_of_quota() or there)


def cores_of_quota() -> int | None:
    """Return the smallest CPU quota of the control groups of this process in cores, >= 1; None if there is none."""
    quota = min(_quotas(), default=None)
    return None if quota is None else max(1, math.ceil(quota))


def cgroup_folders(controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process and of those around them, of versions 2 and 1.

    In a container the paths in ``/proc/self/cgroup`` may be those of the host; folders that do not exist there are
    yielded too.

    Args:
        controller: Controller of version 1, such as ``cpu`` or ``memory``.
    """
    yield from (CGROUP, CGROUP / controller)
    for line in read_text(_OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        folder = CGROUP / controller if controllers else CGROUP
        for part in Path(path).parts[1:]:
            folder /= part
            yield folder


def read_text(path: Path) -> str:
    """Return the text of a file without white space around it; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _quotas() -> Iterator[float]:
    """Yield the quotas of all groups in cores."""
    for folder in cgroup_folders("cpu"):
        quota, _, period = read_text(folder / "cpu.max").partition(" ")
        for limit, length in (
            (quota, period),
            (read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")),
        ):
            if limit.isdigit() and length.isdigit() and int(length):  # "max" and -1: no quota
                yield int(limit) / int(length)
