"""The time between two lines of progress in a log."""

from __future__ import annotations

import time

_LEAST, _MOST = 2.0, 10.0


def next_line(began: float, every_seconds: float | None = None) -> float:
    """Return the time of `time.monotonic` at which the next line is due, counted from now.

    Args:
        began: The time at the beginning.
        every_seconds: Seconds between lines. Defaults to `seconds_between_lines`.
    """
    now = time.monotonic()
    return now + (seconds_between_lines(now - began) if every_seconds is None else every_seconds)


def seconds_between_lines(elapsed: float) -> float:
    """Return the seconds between two lines of progress: two at first, later a thirtieth of the time, up to ten.

    Args:
        elapsed: Seconds since the beginning.
    """
    return min(_MOST, max(_LEAST, elapsed / 30))
