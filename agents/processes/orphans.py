"""End child processes together with the process that started them."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import multiprocess


def leave_signals_to_parent() -> None:
    """Ignore SIGINT and SIGHUP, which a terminal sends to every process of a program; SIGTERM ends this process.

    The parent process handles the signals of the terminal, saves its results and ends this process. A parent that exits
    without closing its children sends them SIGTERM. Forked children inherit its handler of that signal, which would not
    run while compiled code hangs.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_with_parent(processes: Any = multiprocess) -> None:
    """End this process as soon as its parent has ended, for any reason.

    A killed parent cannot stop its children, and children of a fork server are not even its orphans: they would
    continue training until their budget is used up.

    Args:
        processes: The module by which this process was started. `multiprocess` (the default) or
            `multiprocessing`.
    """
    parent = processes.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
