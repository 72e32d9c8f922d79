"""Ending what hangs: an environment that never comes back would hold up a study for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TICKS = 10
"""Parts of the limit after each of which is looked whether anything has come back. Of those that pass while a process
is stopped (Ctrl-Z) it hears one at most."""


class HungError(TimeoutError):
    """A step of the environments, or an update, did not come back."""


class Watchdog:
    """Raises `HungError` in the main thread, where it is, when it was not fed for so long.

    It is heard between two lines of Python, so whoever waits inside compiled code is not interrupted: a process of
    which nothing is heard any more is killed by its parent. Outside of the main thread, where no signal is heard, it
    does nothing.

    Args:
        seconds: How long, above 0; 0 for without limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left = _TICKS

    def feed(self, meals: int = 1) -> None:
        """Something has come back. For what is known to take longer, several meals at once."""
        self._left = meals * _TICKS

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches over the block."""
        if self._seconds <= 0 or threading.current_thread() is not threading.main_thread():
            yield
            return
        self.feed()
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._seconds / _TICKS, self._seconds / _TICKS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _tick(self, number: int, frame: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            self.feed()  # who catches this and hangs again is heard again
            raise HungError(
                f"Nothing came back for {self._seconds:g} s: the environment or the agent hangs. If it is only slow, "
                f"give it more time (--hang-seconds)."
            )
