"""Signals that are deferred until the end of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block.

    For short blocks in which an exception would lose a process that has just started, or a reply in transit. A second
    signal is handled at once. Outside of the main thread, which cannot receive signals, nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, Any]] = []
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in before.items() if callable(handler)}

    def defer(number: int, frame: Any) -> None:
        received.append((number, frame))
        if len(received) > 1:
            before[number](number, frame)

    for number in before:
        signal.signal(number, defer)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in received[:1]:
            before[number](number, frame)
