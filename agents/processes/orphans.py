"""End child processes together with the process that started them."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import multiprocess

from agents.processes.interrupts import END_REQUESTS


def leave_signals_to_parent() -> None:
    """Keep SIGINT, SIGHUP and SIGTERM from ending this process.

    A terminal sends SIGINT and SIGHUP to every process of a program; `timeout`, Slurm and systemd send SIGTERM. The
    parent process handles the signals: it saves the state of its children, and ends them by messages or by SIGKILL.

    SIGTERM is only recorded (`END_REQUESTS`), not ignored or blocked: programs that this process starts, such as
    simulators, would inherit that.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _record)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the fork server blocks it


def _record(number: int, _frame: Any) -> None:
    END_REQUESTS.counts(number)


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
