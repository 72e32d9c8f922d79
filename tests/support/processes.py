"""Processes of tests: how they begin, whatever this one was started by, and looking for those that should be gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)


@contextlib.contextmanager
def usual_signals(ignored: Collection[signal.Signals] = ()) -> Iterator[None]:
    """Give signals the dispositions that they have in a terminal, for this process and those that it starts.

    Without this, a test that sends one depends on who started it: `nohup` ignores SIGHUP, and a shell's background jobs
    ignore SIGINT.

    Args:
        ignored: Those that are ignored meanwhile.
    """
    usual: dict[signal.Signals, Any] = dict.fromkeys(_ENDING, signal.SIG_DFL)
    usual |= {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(ignored, signal.SIG_IGN)}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def started(words: Sequence[str], *, ignored: Collection[signal.Signals] = (), **options: Any) -> Any:
    """Return a process in a session of its own, which hears all signals but those that are to be ignored.

    Args:
        words: The program and its arguments.
        ignored: What it ignores from its start, as `nohup` has it.
        **options: Further ones of `subprocess.Popen`.
    """
    with usual_signals(ignored):
        return subprocess.Popen(words, start_new_session=True, **options)


@contextlib.contextmanager
def running(words: Sequence[str], *, ignored: Collection[signal.Signals] = (), **options: Any) -> Iterator[Any]:
    """Give the same for as long as the block lasts; whatever is left of its session is killed then."""
    process = started(words, ignored=ignored, **options)
    try:
        yield process
    finally:
        end_session(process)


def end_session(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all others of the session that it leads, stopped ones too."""
    for pid in session_members(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    wait_until_alone(process.pid)


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
