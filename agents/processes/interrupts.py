"""Signals that ask a program to end: which of them count, and their deferral to the end of a block."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a program to end."""

DUPLICATE_SECONDS = 2.0
"""Time within which further signals are part of the same request.

A terminal that is closed sends SIGHUP more than once: its shell does, and the system when the shell has ended. Service
managers send SIGTERM and SIGHUP.
"""


class EndRequests:
    """The requests to end that a program has received.

    The first signal ends a program gently. A further one means not to wait: a Ctrl-C at any time, SIGTERM after
    `DUPLICATE_SECONDS`, and SIGHUP only after another SIGHUP, since a terminal may be closed while a program ends.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all signals: a new command, or a new training, begins."""
        self.first: int | None = None
        """Number of the first signal."""
        self._latest: float | None = None  # time of the latest one that counted
        self._closed: float | None = None  # time of the first SIGHUP

    def counts(self, number: int) -> bool:
        """Record a signal; return whether it has to be handled, as the first one or as a further request."""
        now, latest = time.monotonic(), self._latest
        self.first = number if latest is None else self.first
        since = latest
        if number == signal.SIGHUP:
            since = self._closed = now if self._closed is None else self._closed
        counted = latest is None or number == signal.SIGINT or (since is not None and now - since > DUPLICATE_SECONDS)
        self._latest = now if counted else latest
        return counted


END_REQUESTS = EndRequests()
"""Those of this process: a signal that a training has received is no new one for the command that trains."""


_deferred: list[list[tuple[int, Any]]] = []
"""The signals that each of the present blocks of `defer_interrupts`, outer ones first, has received."""


def is_interrupt_deferred() -> bool:
    """Return whether a signal waits for the end of a block of `defer_interrupts`."""
    return any(_deferred)


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Block SIGINT, SIGTERM and SIGHUP in this thread, and in processes that are started in the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block.

    For short blocks in which an exception would lose a process that has just started, or a reply in transit. A further
    request (`EndRequests`) is handled at once. Outside of the main thread, which cannot receive signals, nothing is
    deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, Any]] = []
    requests = EndRequests()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in before.items() if callable(handler)}

    def defer(number: int, frame: Any) -> None:
        if requests.counts(number):
            received.append((number, frame))
            if len(received) > 1:
                before[number](number, frame)

    for number in before:
        signal.signal(number, defer)
    _deferred.append(received)
    try:
        yield
    finally:
        _deferred.pop()
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in received[:1]:
            before[number](number, frame)
