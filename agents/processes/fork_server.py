"""The server that processes are forked from: it has imported TensorFlow, and done nothing with it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import multiprocess
from multiprocess import forkserver, resource_tracker


def prepare_processes(module: str) -> Any:
    """Starts the fork server, which then imports TensorFlow beside what this process does meanwhile.

    A terminal sends Ctrl-C to it too: it is started with that signal blocked, for itself and its children, because
    the parent hears it and ends them all.

    Args:
        module: What it imports, unless it runs already: there is one server a process.

    Returns:
        The context in which processes are made.
    """
    context = multiprocess.get_context("forkserver")
    context.set_forkserver_preload([module])
    resource_tracker.ensure_running()  # first, because its start unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with without_main_module():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    atexit.register(_end_importing)
    return context


def _end_importing() -> None:
    """Ends the fork server where nobody awaited it: this process would wait for its imports before it ends."""
    pid = forkserver._forkserver._forkserver_pid
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_fork_server(context: Any) -> None:
    """Waits until the fork server has imported what it should.

    A Ctrl-C in these seconds leaves nothing behind but a process that does nothing. From then on processes start in
    milliseconds, in which Ctrl-C waits.
    """
    first = context.Process(target=os.getpid, daemon=True)
    with without_main_module():
        first.start()
    first.join()
    atexit.unregister(_end_importing)  # it ends by itself as soon as its parent does


@contextmanager
def without_main_module() -> Iterator[None]:
    """Keeps children that are started in this block from importing the user's script again.

    What a trial needs of it is pickled by value, so that scripts need no ``if __name__ == "__main__"`` and
    notebooks work. Only for starts: in the block the script has no ``__file__``, and what is pickled there neither.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    main.__spec__ = None
    if file is not None:
        del main.__file__
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file
