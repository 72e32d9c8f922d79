"""Progress lines of a call of `Trainer.train` without a progress callback."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

import multiprocess

from agents.training.listeners import Listener
from agents.training.progress_line import ProgressPrinter
from agents.training.training import Training

SWITCH = "FINDER_PROGRESS"
"""Environment variable: with 0, calls that do not set `progress` display nothing."""


class CallProgress(ProgressPrinter):
    """Print lines on standard error during a call; a call that ends before its first line is due prints none."""

    EVERY_SECONDS = 5.0

    def __init__(self) -> None:
        super().__init__(self.EVERY_SECONDS)
        self._shown = False

    def show(self, trainer: Training) -> None:
        super().show(trainer)
        self._shown = True

    def on_train_end(self, trainer: Training) -> None:
        if self._shown:
            self.show(trainer)


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
