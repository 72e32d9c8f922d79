"""Who is running a study, so that a dead run's trials are cleaned up and a living run's are left alone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from studies.spaces import Json

FRESH_SECONDS = 300.0
"""A run on another machine counts as alive for so long after its last sign of life."""

REFRESH_SECONDS = 60.0
"""How often a run gives a sign of life."""


def sign_of_life() -> dict[str, Json]:
    """Returns this process's mark: host, process id, when the process started and the time now (Unix seconds)."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "started": _process_start(pid), "seen": time.time()}


def is_running_elsewhere(mark: Mapping[str, Json] | None, now: float | None = None) -> bool:
    """Returns whether a mark belongs to another process that is still alive.

    On this host the process table answers, so a run that was killed a second ago is known to be dead, and a reused
    process id is told apart by the process's start. Of another host only the last sign of life is known.

    Args:
        mark: What `sign_of_life` returned, or None if nobody runs the study.
        now: Unix seconds. Defaults to `None`, the time now.
    """
    if not mark:
        return False
    fresh = (time.time() if now is None else now) - float(mark["seen"]) < FRESH_SECONDS
    if mark["host"] != socket.gethostname():
        return fresh
    pid = int(mark["pid"])
    if pid == os.getpid():
        return False
    if not _exists(pid):
        return False
    started = _process_start(pid)
    if started is None or mark["started"] is None:
        return fresh
    return bool(started == mark["started"])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _process_start(pid: int) -> int | None:
    """Returns when a process started in clock ticks since boot, None where /proc does not exist (not Linux)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the command in brackets and may hold spaces and brackets itself.
    return int(text.rpartition(")")[2].split()[19])
