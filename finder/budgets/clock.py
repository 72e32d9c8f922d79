"""When a search began: the time that its budget in minutes counts from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_began: ContextVar[float | None] = ContextVar("began", default=None)


@contextmanager
def minutes_from_here() -> Iterator[None]:
    """Count the time of a search within the block from its beginning, such as the import of TensorFlow by a command."""
    token = _began.set(time.monotonic())
    try:
        yield
    finally:
        _began.reset(token)


def began() -> float:
    """Return the time, by `time.monotonic`, from which the time of the present search counts."""
    known = _began.get()
    return time.monotonic() if known is None else known
