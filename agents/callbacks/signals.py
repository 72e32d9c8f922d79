"""Signals: Ctrl-C and termination requests end a training between two steps, in a consistent state."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agents.callbacks.callback import Callback
from agents.errors import ConfigurationError
from agents.processes.interrupts import END_REQUESTS, ENDING

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

REASON = "interrupted"
"""Reason of such a stop."""


class StopOnSignals(Callback):
    """Stop training after the current step on Ctrl-C, SIGTERM or SIGHUP, so that a checkpoint can be written.

    Ignored signals stay ignored. A further request (`agents.processes.interrupts.EndRequests`) is handled as before
    training: a second Ctrl-C raises at once.

    Args:
        on_first: Called with the number of the first signal.
    """

    last = True  # handlers are installed after all other callbacks have accepted the training

    def __init__(self, on_first: Callable[[int], None] | None = None) -> None:
        self.received: int | None = None
        """The signal received, or None."""
        self._on_first = on_first
        self._before: dict[int, Any] = {}

    def on_train_begin(self, trainer: Trainer) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ConfigurationError(
                "Signals can be handled in the main thread only: train there, or leave StopOnSignals out."
            )

        END_REQUESTS.reset()

        def stop(number: int, _frame: Any) -> None:
            if not END_REQUESTS.counts(number):
                return
            if self.received is not None:
                END_REQUESTS.reset()
                signal.signal(number, self._before.pop(number))
                signal.raise_signal(number)
                return
            self.received = number
            trainer.stop(REASON)
            if self._on_first is not None:
                self._on_first(number)

        self.received = None
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                self._before[number] = signal.signal(number, stop)

    def on_train_end(self, trainer: Trainer) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
