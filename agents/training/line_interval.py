"""The time between two lines of progress in a log."""

from __future__ import annotations

_LEAST, _MOST = 2.0, 10.0


def seconds_between_lines(elapsed: float) -> float:
    """Return the seconds between two lines of progress: two at first, later a thirtieth of the time, up to ten.

    Args:
        elapsed: Seconds since the beginning.
    """
    return min(_MOST, max(_LEAST, elapsed / 30))
