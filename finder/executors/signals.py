"""Letting Ctrl-C wait for a moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Holds back what would interrupt this block, until its end.

    For moments in which an exception would lose a process that has just been started, or an answer that is on its
    way. Only for short blocks; who asks a second time is heard at once. Outside of the main thread, where no signal is
    heard, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, Any]] = []
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in before.items() if callable(handler)}

    def hear(number: int, frame: Any) -> None:
        heard.append((number, frame))
        if len(heard) > 1:
            before[number](number, frame)

    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in heard[:1]:
            before[number](number, frame)
