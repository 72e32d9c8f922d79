"""A watchdog that ends hanging calls: an environment that never returns would block a study for ever."""

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

COMPILING_SECONDS = 120.0
"""Least time limit of the first update, which compiles code."""

_TICKS = 30
"""Checks within the time limit. A process that is stopped (Ctrl-Z) receives one of their signals at most."""

_FEWEST = 2
"""Fewest ticks for the environments of a member after those of others have hung in the same step."""

LISTEN_SECONDS = 2.0
"""Most seconds between two checks, and between two calls of `alive`, by the second thread."""


class Watchdog:
    """Raises `HungError` in the main thread when a call has not returned within a time limit.

    Every call into an environment has the full limit. After the environments of two members have hung in one step,
    those of the others share one more limit, so that a step in which all of them hang takes three times the limit.

    Python handles signals between two bytecodes. If the main thread is inside compiled code, a second thread detects
    the hang a quarter of the limit later, provided that the code releases the global interpreter lock. Outside of the
    main thread, which cannot receive signals, the watchdog does nothing.

    Args:
        seconds: The time limit; 0 for no limit.
        on_unresponsive: Called by the second thread with a message when the main thread hangs in compiled code.
        alive: Called regularly by the second thread while the main thread may be busy.
    """

    def __init__(
        self,
        seconds: float,
        on_unresponsive: Callable[[str], None] = lambda _: None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_unresponsive, self.alive = on_unresponsive, alive
        self._seconds = seconds
        self._left = self._limit = _TICKS
        self._seen = 0
        self._beat_seen = self._active = self._suspended = False
        self._has_hung = False  # the environments of a member, in this step
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    def feed(self, seconds: float = 0.0) -> None:
        """Restart the time limit after a call has returned; the next call may take at least so many seconds."""
        ticks = math.ceil(_TICKS * max(1.0, seconds / self._seconds)) if self._seconds > 0 else _TICKS
        self._left, self._limit, self._seen, self._has_hung = ticks, _TICKS, under_way.n_calls, False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the block."""
        if self._seconds <= 0 or threading.current_thread() is not threading.main_thread():
            yield
            return
        self.feed()
        if self._listener is None:  # one thread for all steps of a training: there may be thousands of steps a second
            self._listener = threading.Thread(target=self._listen, name="watchdog", daemon=True)
            self._listener.start()
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._seconds / _TICKS, self._seconds / _TICKS)
        self._beat_seen = self._active = True
        try:
            yield
        finally:
            self._active = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not count the time of the block, which waits for something other than the environment and the agent."""
        self._suspended = True
        try:
            yield
        finally:
            self._suspended = False

    def close(self) -> None:
        """End the second thread."""
        self._closed.set()

    def _tick(self, number: int, frame: Any) -> None:
        self._beat_seen = True
        if self._suspended:
            return
        if under_way.n_calls != self._seen:
            self._seen, self._left = under_way.n_calls, self._limit
        self._left -= 1
        if self._left <= 0:
            waited = self._seconds * min(1.0, self._limit / _TICKS)
            # The caller continues with the environments of the next member. One that hangs says nothing about others.
            if self._has_hung and self._limit == _TICKS:
                self._limit = max(_FEWEST, _TICKS // max(1, under_way.members_left))
            self._has_hung, self._left = True, self._limit
            raise HungError(under_way.message(waited))

    def _listen(self) -> None:
        """Count the ticks whose signals the main thread does not handle."""
        tick, missed = self._seconds / _TICKS, 0.0
        wait = min(tick, LISTEN_SECONDS)
        while not self._closed.wait(wait):
            is_watching = self._active and not self._suspended
            missed = missed + wait / tick if is_watching and not self._beat_seen else 0.0
            self._beat_seen = False
            if missed > self._left + _TICKS // 4:
                self.on_unresponsive(under_way.message(self._seconds))
                return
            self.alive()


class WatchdogCallback(Callback):
    """Feeds a watchdog after training phases other than environment steps.

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
        self._updated = self._updated or trainer.buffer.ready

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self._watchdog.feed()
