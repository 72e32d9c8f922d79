"""Ending what hangs: an environment that never comes back would hold up a study for ever."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agents.callbacks.callback import Callback
from agents.processes.hanging import HungError, under_way
from agents.training.records import Evaluation
from agents.training.trainer import Trainer

__all__ = ["COMPILING_SECONDS", "HungError", "Watchdog", "WatchdogCallback"]

COMPILING_SECONDS = 120.0
"""How long the first update may take at least, in which code is compiled, however small the limit is."""

_TICKS = 30
"""Parts of the limit after each of which is looked whether anything has come back. Of those that pass while a process
is stopped (Ctrl-Z) it hears one at most."""

_FEWEST = 2
"""Ticks that the copies of a member have at least, after those of another one have hung in the same step."""


class Watchdog:
    """Raises `HungError` in the main thread, where it is, when nothing has come back for so long.

    Every call into a copy of the environment has the limit for itself. Where one has hung, those that are still to be
    asked in the same step share another limit, so that a step in which all of them hang takes twice the limit.

    It is heard between two lines of Python. A process whose main thread is inside compiled code does not hear it: that
    is found by another thread a quarter of the limit later, as long as the code lets other threads run. Outside of the
    main thread, where no signal is heard, the watchdog does nothing.

    Args:
        seconds: How long, above 0; 0 for without limit.
        deaf: Called by the other thread, with what to tell of it, where the main thread hangs in compiled code.
        alive: Called by the other thread now and then, while the main thread may take its time.
    """

    def __init__(
        self,
        seconds: float,
        deaf: Callable[[str], None] = lambda _: None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.deaf, self.alive = deaf, alive
        self._seconds = seconds
        self._left = self._limit = _TICKS
        self._seen = 0
        self._heard = self._active = False
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    def feed(self, seconds: float = 0.0) -> None:
        """Something has come back. What follows may take the limit, or so many seconds where these are more."""
        ticks = math.ceil(_TICKS * max(1.0, seconds / self._seconds)) if self._seconds > 0 else _TICKS
        self._left, self._limit, self._seen = ticks, _TICKS, under_way.n_calls

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches over the block."""
        if self._seconds <= 0 or threading.current_thread() is not threading.main_thread():
            yield
            return
        self.feed()
        if self._listener is None:  # one for all turns of a training: there may be thousands a second
            self._listener = threading.Thread(target=self._listen, name="watchdog", daemon=True)
            self._listener.start()
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._seconds / _TICKS, self._seconds / _TICKS)
        self._heard = self._active = True
        try:
            yield
        finally:
            self._active = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def close(self) -> None:
        """Ends the other thread."""
        self._closed.set()

    def _tick(self, number: int, frame: Any) -> None:
        self._heard = True
        if under_way.n_calls != self._seen:
            self._seen, self._left = under_way.n_calls, self._limit
        self._left -= 1
        if self._left <= 0:
            waited = self._seconds * min(1.0, self._limit / _TICKS)
            # Who catches this goes on to the next member's copies, which share one more limit, or hangs again.
            if self._limit == _TICKS:
                self._limit = max(_FEWEST, _TICKS // max(1, under_way.members_left))
            self._left = self._limit
            raise HungError(under_way.why(waited))

    def _listen(self) -> None:
        """Counts the ticks that the main thread does not hear."""
        missed = 0
        while not self._closed.wait(self._seconds / _TICKS):
            missed = missed + 1 if self._active and not self._heard else 0
            self._heard = False
            if missed > self._left + _TICKS // 4:
                self.deaf(under_way.why(self._seconds))
                return
            self.alive()


class WatchdogCallback(Callback):
    """Feeds a watchdog with what a training does beside stepping its environments.

    Args:
        watchdog: The watchdog.
    """

    of_members = True

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._updated = False

    def on_step_end(self, trainer: Trainer) -> None:
        self._watchdog.feed()

    def on_rollout_end(self, trainer: Trainer) -> None:
        self._watchdog.feed(0.0 if self._updated else COMPILING_SECONDS)  # the first update is traced
        self._updated = self._updated or trainer.memory.due

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self._watchdog.feed()
