"""The command line: ``finder lr ppo --env CartPole-v1``.

Heavy packages are not imported here or while the commands are declared. Each command imports what it needs when it
runs, so that ``finder --help`` is fast and only the commands that train import TensorFlow.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import io
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: Words of the command, without the name of the program. Defaults to None: those of this process.

    Returns:
        0 on success; 1 if a study stopped early or found nothing; 2 for invalid input; 130 after Ctrl-C.
    """
    if arguments is None:
        with contextlib.suppress(io.UnsupportedOperation, RuntimeError):  # a standard error that is no file, or none
            faulthandler.enable()  # compiled code of an environment may end the process: this says where
        atexit.register(gc.freeze)  # else the exit takes a second longer, for reference cycles of TensorFlow
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")  # not every terminal's encoding has ± or …
    from finder.cli.app import run

    return run(arguments)
