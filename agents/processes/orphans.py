"""No process outlives the one that started it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import multiprocess


def leave_signals_to_parent() -> None:
    """Ignores what a terminal sends to all processes of a program at once, with Ctrl-C or when it is closed.

    The one that started this process hears it too, keeps what there is to be kept, and ends this one (by SIGTERM, where
    it ends without having closed it: that is not ignored).
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def end_with_parent(processes: Any = multiprocess) -> None:
    """Ends this process as soon as its parent is gone, however that ended.

    A parent that is killed cannot stop its children, and those of a fork server do not even become its orphans: they
    would train on, for nobody, until their budget is used up.

    Args:
        processes: The module by which this process was started. Defaults to `multiprocess`; the other one is
            `multiprocessing`.
    """
    parent = processes.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
