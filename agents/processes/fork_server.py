"""The fork server: a process that has imported TensorFlow and executed nothing with it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import multiprocess
from multiprocess import forkserver, resource_tracker

from agents.processes.ending import kill_at_exit
from agents.processes.interrupts import block_interrupts, defer_interrupts
from agents.shared_objects import address_for_processes
from agents.trust.allowed_modules import restrict_process, restriction

_UNKNOWN_CODE = 255
"""Exit code in `multiprocess` of a process whose fork server has ended."""

_LONGEST_END = 0.5
"""Most seconds between the end of the connections of a killed server and its own end."""

_server_of: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()
"""Process -> ID of the fork server that it was forked from."""


def prepare_processes(module: str) -> Any:
    """Start the fork server, which imports TensorFlow in the background.

    Args:
        module: Module that the server imports. Ignored where the server already runs: each process has one server.

    Returns:
        The multiprocessing context to create processes with.
    """
    context = multiprocess.get_context("forkserver")
    context.set_forkserver_preload([module])
    _ensure_server()
    atexit.register(_end_importing)
    return context


def _ensure_server() -> None:
    """Start the fork server if it is not running.

    SIGINT, SIGHUP and SIGTERM may be sent to every process of a program. The fork server and its children are started
    with these signals blocked, because the parent handles them and ends all of these processes.
    """
    with block_interrupts():
        resource_tracker.ensure_running()  # ignores SIGINT and SIGTERM, and unblocks both here
        with block_interrupts(), without_main_module():
            forkserver.ensure_running()


def _end_importing() -> None:
    """Kill a fork server that is still importing: this process would wait for the imports at exit."""
    pid = forkserver._forkserver._forkserver_pid
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_fork_server(context: Any) -> None:
    """Wait until the fork server has finished its imports.

    A Ctrl-C during the wait leaves only an idle process behind. Afterwards processes start within milliseconds, during
    which Ctrl-C is deferred.
    """
    first = context.Process(target=os.getpid, daemon=True)
    with without_main_module():
        first.start()
    first.join()
    atexit.unregister(_end_importing)  # the server now ends with its parent


def start_child(context: Any, main: Callable[..., None], *arguments: Any, threads: int, name: str | None = None) -> Any:
    """Start a process that is forked from the fork server, and ends with this process.

    Args:
        context: The context from `prepare_processes`.
        main: Its main function.
        arguments: The arguments of `main`.
        threads: Cores that the process may use.
        name: Name of the process. Defaults to one of `multiprocess`.

    Returns:
        The process.
    """
    settings = (threads, address_for_processes(), list(sys.path))  # the environment of the fork server is older
    process = context.Process(
        target=_run_child, args=(main, arguments, restriction(), settings), name=name, daemon=True
    )
    _ensure_server()  # the first one may have been killed
    _server_of[process] = forkserver._forkserver._forkserver_pid
    with defer_interrupts(), without_main_module():  # at exit, a process that is not to be killed is waited for
        process.start()
        kill_at_exit(process)
    return process


def has_lost_server(process: Any) -> bool:
    """Return whether a process of `start_child` counts as ended because its fork server has ended.

    Only its server could tell when it ends, and with which exit code. It ends as soon as nothing refers to its object.
    """
    pid = _server_of.get(process)
    if pid is None or process.exitcode != _UNKNOWN_CODE:
        return False
    deadline = time.monotonic() + _LONGEST_END
    while pid == forkserver._forkserver._forkserver_pid and _is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _is_running(child: int) -> bool:
    """Return whether a child process is running; it is not reaped if it is not."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _run_child(
    main: Callable[..., None], arguments: Sequence[Any], active: str | None, settings: tuple[int, str, Sequence[str]]
) -> None:
    from agents.processes.child_process import begin  # imports TensorFlow

    restrict_process(active)
    begin(*settings)
    main(*arguments)


@contextmanager
def without_main_module() -> Iterator[None]:
    """Prevent children that are started in this block from importing the user's script again.

    Objects of the script that a trial needs are pickled by value, so that scripts need no ``if __name__ == "__main__"``
    and notebooks work. Use the block only to start a process: inside it, ``__main__`` has no ``__file__``.
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
