"""Ctrl-C and polite kills end a training between two of its steps, where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agents.callbacks.callback import Callback
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

REASON = "interrupted"
"""Why a training has stopped then."""


class StopOnSignals(Callback):
    """Stops training after the current step when Ctrl-C, SIGTERM or SIGHUP comes, so that a checkpoint can be written.

    Those that are ignored stay so. The same signal again is dealt with as before training: Ctrl-C then raises at once.

    Args:
        on_first: Called with the first signal's number.
    """

    last = True  # once it hears signals, nobody may refuse to begin

    def __init__(self, on_first: Callable[[int], None] | None = None) -> None:
        self.received: int | None = None
        """The signal that has come, or None."""
        self._on_first = on_first
        self._before: dict[int, Any] = {}

    def on_train_begin(self, trainer: Trainer) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ConfigurationError("Signals are heard by a program's main thread: train there, or leave them alone.")

        def stop(number: int, _frame: Any) -> None:
            signal.signal(number, self._before.pop(number))
            self.received = number
            trainer.stop(REASON)
            if self._on_first is not None:
                self._on_first(number)

        self.received = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
                self._before[number] = signal.signal(number, stop)

    def on_train_end(self, trainer: Trainer) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
