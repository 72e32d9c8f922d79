"""Callback that prints progress lines of a training at intervals."""

from __future__ import annotations

from agents.callbacks.callback import Callback
from agents.training.progress_line import ProgressPrinter


class Progress(ProgressPrinter, Callback):
    """Print a line at intervals: time, steps, episodes, steps per second, mean and best return, learning rate.

    Args:
        every_seconds: Seconds between lines. Defaults to None: two at first, later up to ten.
        stream: Output stream. Defaults to standard error.
        window: Number of episodes in the mean. Defaults to None: those of the last fifth of the training so
            far, at least one for each copy of the environment, at most 100.
    """

    shows_progress = True
