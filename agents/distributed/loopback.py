"""Worker processes of a strategy on this machine: addresses, start and end."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError
from agents.processes.interrupts import block_interrupts
from agents.processes.orphans import leave_signals_to_parent
from agents.trust.allowed_modules import environment_variables

log = logging.getLogger(__name__)

_BIND_TO_DEVICE: int = getattr(socket, "SO_BINDTODEVICE", -1)  # Linux only

Cluster = Mapping[str, Sequence[str]]
"""Role -> addresses of the processes with that role."""


def free_addresses(n: int) -> list[str]:
    """Return `n` unused addresses of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in sockets]


def start(module: str, cluster: Cluster, role: str, index: int) -> subprocess.Popen[bytes]:
    """Start a process that runs a module as a member of a cluster. It ends when its standard input is closed."""
    path = os.pathsep.join(path for path in sys.path if path)
    own = {"TF_CONFIG": _config(cluster, role, index), "PYTHONPATH": path}
    environment = {**environment_variables(), **own}
    with block_interrupts():  # `exit_with_parent` handles them
        return subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, env=environment)


@contextlib.contextmanager
def loopback_only() -> Iterator[None]:
    """Restrict servers that start within the block to the loopback interface.

    TensorFlow's servers listen on all interfaces, whatever their address, and execute the requests of any client.
    """
    if not Path("/proc/self/fd").is_dir():
        _warn_of_open_servers("this system has no /proc")
    before = _sockets_on_all_interfaces()
    yield
    for name, handle in _sockets_on_all_interfaces().items():
        if name in before:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as listener:
            _bind_to_loopback(listener)


def _sockets_on_all_interfaces() -> dict[str, int]:
    """Return the sockets of this process that listen on all interfaces: system name -> file descriptor."""
    found = {}
    for path in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            name = os.readlink(path)
            if name.startswith("socket:") and _listens_on_all_interfaces(int(path.name)):
                found[name] = int(path.name)
    return found


def _listens_on_all_interfaces(handle: int) -> bool:
    with socket.socket(fileno=os.dup(handle)) as listener:
        if listener.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return bool(listens) and listener.getsockname()[0] in ("::", "0.0.0.0")


def _bind_to_loopback(listener: socket.socket) -> None:
    try:
        listener.setsockopt(socket.SOL_SOCKET, _BIND_TO_DEVICE, b"lo")
    except OSError as error:  # Linux before 5.7 requires an administrator, other systems lack the option
        _warn_of_open_servers(error.strerror or str(error))


@functools.cache  # once in a process
def _warn_of_open_servers(reason: str) -> None:
    log.warning(
        "TensorFlow's servers of this strategy listen on all interfaces, without authentication, and cannot be "
        "restricted to this machine (%s): use the strategy in a private network only.",
        reason,
    )


@contextlib.contextmanager
def cluster_environment(cluster: Cluster, role: str, index: int) -> Iterator[None]:
    """Set `TF_CONFIG`, by which TensorFlow makes this process a member of a cluster, within the block."""
    before = os.environ.get("TF_CONFIG")
    os.environ["TF_CONFIG"] = _config(cluster, role, index)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TF_CONFIG"]
        else:
            os.environ["TF_CONFIG"] = before


def make_strategy(make: Callable[[], Any]) -> Any:
    """Make the strategy of a cluster; required before TensorFlow initializes its devices.

    Raises:
        ConfigurationError: TensorFlow is initialized already in this process.
    """
    try:
        with loopback_only():
            return make()
    except RuntimeError as error:
        raise ConfigurationError(
            f"TensorFlow is already initialized in this process ({error}): let a study train in processes of its "
            "own (--executor process)."
        ) from error


def exit_with_parent(read: Callable[[], object]) -> None:
    """Start a thread that ends this process when `read`, which reads standard input to its end, returns or raises.

    The process also leaves signals to its parent process.
    """
    leave_signals_to_parent()

    def watch() -> None:
        try:
            read()
        except BaseException:  # noqa: BLE001 - it would end this thread only
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _config(cluster: Cluster, role: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
