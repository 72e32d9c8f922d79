"""Progress lines of a call of `Trainer.train` without a progress callback."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable

import multiprocess

from agents.training.listeners import Listener
from agents.training.progress_line import ProgressLine
from agents.training.training import Training

SWITCH = "FINDER_PROGRESS"
"""Environment variable: with 0, calls that do not set `progress` display nothing."""


class CallProgress(Listener):
    """Print lines on standard error during a call; a call that ends before its first line is due prints none."""

    EVERY_SECONDS = 5.0

    last = True

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._next = 0.0
        self._shown = False

    def on_train_begin(self, trainer: Training) -> None:
        """Start the clock."""
        self._next = time.monotonic() + self.EVERY_SECONDS
        self._line.start(trainer)

    def on_step_end(self, trainer: Training) -> None:
        """Print a line if one is due."""
        if time.monotonic() >= self._next:
            self._show(trainer)
            self._next = time.monotonic() + self.EVERY_SECONDS

    def on_train_end(self, trainer: Training) -> None:
        """Print the last line."""
        if self._shown:
            self._show(trainer)

    def _show(self, trainer: Training) -> None:
        print(self._line.text(trainer), file=sys.stderr, flush=True)
        self._shown = True


def call_progress(listeners: Iterable[Listener]) -> list[Listener]:
    """Return the listener that displays a call of `Trainer.train`, if any.

    There is none if a callback displays progress, and none outside the main thread of the main process: trials of a
    study have processes or threads of their own, and the study has a display.

    Args:
        listeners: The trainer's callbacks.
    """
    is_main = multiprocess.parent_process() is None and threading.current_thread() is threading.main_thread()
    shown = any(listener.shows_progress for listener in listeners)
    return [] if shown or not is_main or os.environ.get(SWITCH) == "0" else [CallProgress()]
