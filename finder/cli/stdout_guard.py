"""Agents and environments are other people's code, and some of it prints. Results must stay alone on stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def redirect_stdout_to_stderr() -> Iterator[None]:
    """Send what is written to stdout meanwhile to stderr, by this process and by those that it starts."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # there is no stdout or no stderr
            kept = os.dup(1)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, 1)
            os.dup2(2, 1)
        yield
