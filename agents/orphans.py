"""No process outlives the one that started it."""

from __future__ import annotations

import os
import threading
from typing import Any

import multiprocess


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
