"""Keeps the output of agents and environments away from stdout, which is for results."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def redirect_stdout_to_stderr() -> Iterator[None]:
    """Redirect stdout of this process and its children to stderr for the time of the block."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # stdout or stderr is closed
            kept = os.dup(1)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, 1)
            os.dup2(2, 1)
        yield
