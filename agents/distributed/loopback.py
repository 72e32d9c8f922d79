"""Worker processes of a strategy on this machine: addresses, start and end."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError

log = logging.getLogger(__name__)

_BIND_TO_DEVICE: int = getattr(socket, "SO_BINDTODEVICE", -1)  # Linux only

Cluster = Mapping[str, Sequence[str]]
"""Role -> addresses of the processes with that role."""


def free_addresses(n: int) -> list[str]:
    """Return `n` unused addresses of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def start(module: str, cluster: Cluster, role: str, index: int) -> subprocess.Popen[bytes]:
    """Start a process that runs a module as a member of a cluster. It ends when its standard input is closed."""
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TF_CONFIG": _config(cluster, role, index), "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, env=environment)


@contextlib.contextmanager
def kept_to_loopback() -> Iterator[None]:
    """Restrict servers that start within the block to the loopback interface.

    TensorFlow's servers listen on all interfaces, whatever their address, and execute the requests of any client.
    """
    if not Path("/proc/self/fd").is_dir():
        _say_open("this system has no /proc")
    before = _listening_everywhere()
    yield
    for name, handle in _listening_everywhere().items():
        if name in before:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as same:
            _bind_to_loopback(same)


def _listening_everywhere() -> dict[str, int]:
    """Return the sockets of this process that listen on all interfaces: system name -> file descriptor."""
    found = {}
    for each in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            name = os.readlink(each)
            if name.startswith("socket:") and _listens_everywhere(int(each.name)):
                found[name] = int(each.name)
    return found


def _listens_everywhere(handle: int) -> bool:
    with socket.socket(fileno=os.dup(handle)) as same:
        if same.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        listens = same.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return bool(listens) and same.getsockname()[0] in ("::", "0.0.0.0")


def _bind_to_loopback(own: socket.socket) -> None:
    try:
        own.setsockopt(socket.SOL_SOCKET, _BIND_TO_DEVICE, b"lo")
    except OSError as error:  # Linux before 5.7 requires an administrator, other systems lack the option
        _say_open(error.strerror or str(error))


@functools.cache  # once in a process
def _say_open(why: str) -> None:
    log.warning(
        "TensorFlow's servers of this strategy listen on all interfaces, without authentication, and cannot be "
        "restricted to this machine (%s): use the strategy in a private network only.",
        why,
    )


@contextlib.contextmanager
def being(cluster: Cluster, role: str, index: int) -> Iterator[None]:
    """Present this process to TensorFlow as a member of a cluster, within the block."""
    os.environ["TF_CONFIG"] = _config(cluster, role, index)
    try:
        yield
    finally:
        del os.environ["TF_CONFIG"]


def begun(make: Callable[[], Any]) -> Any:
    """Make the strategy of a cluster; required before TensorFlow initializes its devices.

    Raises:
        ConfigurationError: TensorFlow is initialized already in this process.
    """
    try:
        with kept_to_loopback():
            return make()
    except RuntimeError as error:
        raise ConfigurationError(
            f"TensorFlow is already initialized in this process ({error}): let a study train in processes of its "
            "own (--executor process)."
        ) from error


def ends_with_its_starter(read: Callable[[], object]) -> None:
    """Start a thread that ends this process when `read`, which reads standard input to its end, returns.

    The process also ignores Ctrl-C, which its parent process handles.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _config(cluster: Cluster, role: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
