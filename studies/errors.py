"""The one error that a user's mistake raises in `studies`, and the words that name the nearest right answer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StudyError(ValueError):
    """A study cannot be made, opened, continued or read as it was asked for.

    The message names the value given, what is allowed and what to do next. The command line prints it as it is
    and ends with exit code 2, so it never needs a traceback to be understood.
    """


def nearest(name: str, allowed: Iterable[str], limit: int = 3) -> str:
    """Returns the end of an error message: the nearest allowed names, then all of them.

    Args:
        name: The unknown name as the user gave it.
        allowed: Every name that would have been accepted.
        limit: The most near names to offer. Defaults to `3`.

    Returns:
        For example `Did you mean 'adam'? Allowed: adam, sgd.` When nothing is near, only the second sentence.
    """
    names = sorted(set(allowed))
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    matches = difflib.get_close_matches(name.lower(), lowered, n=limit, cutoff=0.5)
    close = [repr(lowered[match]) for match in matches]
    listed = f"Allowed: {', '.join(names)}." if names else "There is none yet."
    return f"Did you mean {' or '.join(close)}? {listed}" if close else listed
