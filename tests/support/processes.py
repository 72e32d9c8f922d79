"""Processes of tests: start with default signal handlers, end, and checks for remaining processes."""

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
    """Give signals the handlers that they have in a terminal, for this process and its children.

    Without this, a test that sends signals depends on its parent process: `nohup` ignores SIGHUP, and background jobs
    of a shell ignore SIGINT.

    Args:
        ignored: Signals to ignore instead.
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
    """Return a process in a new session, which handles all signals except the ignored ones.

    Args:
        words: The program and its arguments.
        ignored: Signals that the process ignores from its start, as with `nohup`.
        **options: Further options of `subprocess.Popen`.
    """
    with usual_signals(ignored):
        return subprocess.Popen(words, start_new_session=True, **options)


@contextlib.contextmanager
def running(words: Sequence[str], *, ignored: Collection[signal.Signals] = (), **options: Any) -> Iterator[Any]:
    """Yield a process in a new session; kill the remaining processes of the session at the end of the block."""
    process = started(words, ignored=ignored, **options)
    try:
        yield process
    finally:
        end_session(process)


def end_session(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all others of its session, stopped ones included."""
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
    """Return the live processes of a session, without zombies."""
    return [pid for pid, state, _, member_of in _process_table() if member_of == session and state != "Z"]


def children(parent: int) -> list[int]:
    """Return the child processes of a process, zombies included."""
    return [pid for pid, _, child_of, _ in _process_table() if child_of == parent]


def _process_table() -> Iterator[tuple[int, str, int, int]]:
    """Yield the process ID, state, parent and session of each process; one that ends meanwhile is left out."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
        except OSError:
            continue
        yield int(stat.parent.name), state, int(parent), int(session)


def wait_until_alone(session: int, seconds: float = 60.0) -> None:
    """Wait until no process of the session is left; a fork server ends a moment after its last client."""
    deadline = time.monotonic() + seconds
    while left := session_members(session):
        assert time.monotonic() < deadline, f"still alive: {left}"
        time.sleep(0.05)
