"""Ending of child processes, however they were started."""

from __future__ import annotations

import atexit
import weakref
from contextlib import suppress
from typing import Any

_killed_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()


def end(process: Any, seconds: float) -> None:
    """Wait for the end of a process, and kill it if it takes longer.

    Args:
        process: A process of `multiprocessing` or `multiprocess`.
        seconds: Most seconds to wait.
    """
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()


def kill_at_exit(process: Any) -> None:
    """Kill a started process when this process exits.

    `multiprocessing` and `multiprocess` send SIGTERM to daemons at exit and wait for their end, but children leave
    that signal to their parent (`agents.processes.orphans.leave_signals_to_parent`).

    Args:
        process: A process of `multiprocessing` or `multiprocess`.
    """
    _killed_at_exit.add(process)
    atexit.unregister(_kill)
    atexit.register(_kill)  # runs before functions that were registered earlier, such as that of `multiprocessing`


def _kill() -> None:
    for process in _killed_at_exit:
        with suppress(ValueError):  # it was closed
            process.kill()
