"""Ray, the extra `ray`: imported when it is first needed, and connected to a cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

from multiprocess.util import Finalize

from agents.errors import ConfigurationError

_SIGNAL_SECONDS = 0.5
_CONNECT_SECONDS = 5.0


def connected_ray(asker: str) -> Any:
    """Returns the module `ray`, connected: to the cluster that `RAY_ADDRESS` names, else to one on this machine.

    Args:
        asker: What needs it, as the beginning of a sentence, such as ``"The executor 'ray'"``.

    Raises:
        ConfigurationError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise ConfigurationError(f"{asker} needs Ray: pip install 'agentfinder[ray]'.") from None
    if not ray.is_initialized():
        _check_address(os.environ.get("RAY_ADDRESS", ""))
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
        except Exception as error:
            raise ConfigurationError(f"The Ray cluster cannot be reached: {error}") from error
        finally:
            if threading.current_thread() is threading.main_thread() and before is not None:
                signal.signal(signal.SIGTERM, before)  # Ray takes it for itself, and ends this process
        Finalize(None, ray.shutdown, exitpriority=0)  # in a process of `multiprocess`, Ray does not hear of its end
    return ray


def _check_address(address: str) -> None:
    """Raises `ConfigurationError` where nobody answers at an address: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):  # nothing, "auto" or "local"
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"Nothing answers at RAY_ADDRESS={address} ({error.strerror or error}): start a cluster there with "
            f"`ray start --head`, or unset it, and Ray runs on this machine."
        ) from None


def on_this_machine(ray: Any) -> Any:
    """Returns what has Ray put an actor on the machine of this process."""
    here = ray.get_runtime_context().get_node_id()
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)


def first_line(error: BaseException) -> str:
    """Returns the first line of what an error says: Ray's say much more."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def answered(asked: Any) -> Any:
    """Returns what `ray.get` does, and can be interrupted while it waits.

    What a signal's handler raises is raised here; `ray.get` by itself keeps it back until the answer is there, which
    may be never.

    Args:
        asked: One reference, or a list of them.

    Raises:
        ray.exceptions.RayError: What was asked for has failed.
    """
    import ray

    while True:
        try:
            return ray.get(asked, timeout=_SIGNAL_SECONDS)
        except ray.exceptions.GetTimeoutError:
            continue
        except SystemError as error:  # how compiled code tells of an exception that was raised in a handler
            raise error.__cause__ or error from None
