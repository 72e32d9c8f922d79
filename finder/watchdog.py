"""Ending what hangs: an environment that never comes back would hold up a study for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class HungError(TimeoutError):
    """A step of the environments, or an update, did not come back."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises `HungError` where the block is, when it lasts longer.

    It is heard between two lines of Python, so whoever waits inside compiled code is not interrupted: a process of
    which nothing is heard any more is killed by its parent. Outside of the main thread, where no signal is heard, this
    does nothing.

    Args:
        seconds: How long, above 0; 0 for without limit.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> NoReturn:
        raise HungError(
            f"Nothing came back for {seconds:g} s: the environment or the agent hangs. If it is only slow, give it "
            f"more time (--hang-seconds)."
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
