"""Looking for processes that should be gone."""

from __future__ import annotations

import time
from pathlib import Path


def session_members(session: int) -> list[int]:
    """Processes of a session that are still alive, zombies not counted."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, member_of = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(member_of) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_until_alone(session: int, seconds: float = 60.0) -> None:
    """Waits until nobody of the session is left: the fork server notices a moment later that nobody needs it."""
    deadline = time.monotonic() + seconds
    while left := session_members(session):
        assert time.monotonic() < deadline, f"still alive: {left}"
        time.sleep(0.05)
