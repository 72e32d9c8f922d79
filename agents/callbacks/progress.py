"""Progress lines of a training, printed at intervals."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from agents.callbacks.callback import Callback
from agents.training.progress_line import ProgressLine

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


class Progress(Callback):
    """Print a line at intervals: time, steps, episodes, steps per second, mean and best return, learning rate.

    Args:
        every_seconds: Seconds between lines. Defaults to 5.
        stream: Output stream. Defaults to standard error.
        window: Number of episodes in the mean. Defaults to 100.
    """

    last = True
    shows_progress = True

    def __init__(self, every_seconds: float = 5.0, stream: TextIO | None = None, window: int = 100) -> None:
        self.every_seconds = every_seconds
        self.stream = stream
        self._line = ProgressLine(window)
        self._next = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self._next = time.monotonic() + self.every_seconds
        self._line.start(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        if time.monotonic() >= self._next:
            self.show(trainer)
            self._next = time.monotonic() + self.every_seconds

    def on_train_end(self, trainer: Trainer) -> None:
        self.show(trainer)

    def show(self, trainer: Trainer) -> None:
        """Print a line."""
        print(self.line(trainer), file=self.stream or sys.stderr, flush=True)

    def line(self, trainer: Trainer) -> str:
        """Return the line for this moment."""
        return self._line.text(trainer)
