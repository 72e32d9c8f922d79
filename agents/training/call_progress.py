"""Progress of a call of `Trainer.train` to which no `Progress` callback was given."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import multiprocess

from agents.callbacks.callback import Callback, Progress

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

SWITCH = "FINDER_PROGRESS"
"""Environment variable: with 0 nothing is shown where nothing was said of progress."""


class CallProgress(Progress):
    """Lines on standard error while a call lasts, and none for one that is over before the first is due."""

    EVERY_SECONDS = 5.0

    def __init__(self) -> None:
        super().__init__(self.EVERY_SECONDS)
        self._shown = False

    def show(self, trainer: Trainer) -> None:
        super().show(trainer)
        self._shown = True

    def on_train_end(self, trainer: Trainer) -> None:
        if self._shown:
            self.show(trainer)


def call_progress(callbacks: Iterable[Callback]) -> list[Callback]:
    """Return what shows a call of `Trainer.train`: nothing where a callback does, or where no person would read it.

    Trials of a study have processes or threads of their own, and the study has a display.

    Args:
        callbacks: The trainer's.
    """
    is_main = multiprocess.parent_process() is None and threading.current_thread() is threading.main_thread()
    shown = any(isinstance(callback, Progress) for callback in callbacks)
    return [] if shown or not is_main or os.environ.get(SWITCH) == "0" else [CallProgress()]
