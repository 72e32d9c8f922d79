"""Ending of child processes, however they were started."""

from __future__ import annotations

from typing import Any


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
