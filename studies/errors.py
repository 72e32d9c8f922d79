"""The error class of `studies`, and suggestions of the nearest valid names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StudyError(ValueError):
    """Error for a study that cannot be created, opened, continued or read.

    The message names the value given, what is allowed and what to do next. The command line prints it without a
    traceback and exits with code 2.
    """


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message: the nearest allowed names, then all of them.

    Args:
        name: Unknown name as the user gave it.
        allowed: All valid names.

    Returns:
        For example `Did you mean 'adam'? Allowed: adam, sgd.` Without a near name, only the second sentence.
    """
    names = sorted(set(allowed))
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    matches = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    close = [repr(lowered[match]) for match in matches]
    listed = f"Allowed: {', '.join(names)}." if names else "There is none yet."
    return f"Did you mean {' or '.join(close)}? {listed}" if close else listed
