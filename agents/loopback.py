"""Further processes of a strategy, on this machine: their addresses, and how they start and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agents.errors import ConfigurationError

Cluster = Mapping[str, Sequence[str]]
"""Role -> addresses of the processes that have it."""


def free_addresses(n: int) -> list[str]:
    """Returns so many addresses on which nobody listens."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def start(module: str, cluster: Cluster, role: str, index: int) -> subprocess.Popen[bytes]:
    """Starts a process that runs a module as one of a cluster. It ends when its standard input is closed."""
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TF_CONFIG": _config(cluster, role, index), "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, env=environment)


@contextlib.contextmanager
def being(cluster: Cluster, role: str, index: int) -> Iterator[None]:
    """While in here, TensorFlow takes this process for one of a cluster."""
    os.environ["TF_CONFIG"] = _config(cluster, role, index)
    try:
        yield
    finally:
        del os.environ["TF_CONFIG"]


def begun(make: Callable[[], Any]) -> Any:
    """Returns what makes a cluster's strategy, which must be done before TensorFlow begins its work.

    Raises:
        ConfigurationError: It has begun in this process.
    """
    try:
        return make()
    except RuntimeError as error:
        raise ConfigurationError(
            f"TensorFlow has begun its work in this process already ({error}): let a study do it in processes of its "
            "own (--executor process)."
        ) from error


def ends_with_its_starter(read: Callable[[], object]) -> None:
    """Has a thread end this process when `read` returns, which reads standard input to its end: whatever it is doing.

    Ctrl-C is for the process that started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _config(cluster: Cluster, role: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
