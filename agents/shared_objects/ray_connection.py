"""The optional dependency Ray (extra `ray`): import on first use, and connection to a cluster."""

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


def connected_ray(feature: str) -> Any:
    """Return the module `ray`, connected to the cluster of `RAY_ADDRESS`, else to one on this machine.

    Args:
        feature: Part of the product that needs Ray, as the beginning of a sentence, such as ``"The executor 'ray'"``.

    Raises:
        ConfigurationError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise ConfigurationError(f"{feature} needs Ray: pip install ray.") from None
    if not ray.is_initialized():
        _check_address(os.environ.get("RAY_ADDRESS", ""))
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
        except Exception as error:
            raise ConfigurationError(f"The Ray cluster cannot be reached: {error}") from error
        finally:
            if threading.current_thread() is threading.main_thread() and before is not None:
                signal.signal(signal.SIGTERM, before)  # Ray replaces the handler by one that ends this process
        Finalize(None, ray.shutdown, exitpriority=0)  # processes of `multiprocess` skip Ray's exit handlers
    return ray


def _check_address(address: str) -> None:
    """Raise `ConfigurationError` where no server listens at an address: Ray itself would retry for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):  # empty, "auto" or "local"
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"Nothing answers at RAY_ADDRESS={address} ({error.strerror or error}): start a cluster there with "
            f"`ray start --head`, or unset it, and Ray runs on this machine."
        ) from None


def on_this_machine(ray: Any) -> Any:
    """Return the scheduling strategy that places an actor on the machine of this process."""
    here = ray.get_runtime_context().get_node_id()
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)


def first_line(error: BaseException) -> str:
    """Return the first line of an error message: messages of Ray are long."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def get_result(references: Any) -> Any:
    """Return the result of `ray.get`, with a wait that signals can interrupt.

    An error that a signal handler raises is raised immediately; plain `ray.get` defers it until the result is
    available, which may be never.

    Args:
        references: One reference, or a list of them.

    Raises:
        ray.exceptions.RayError: The task or the actor has failed.
    """
    import ray

    while True:
        try:
            return ray.get(references, timeout=_SIGNAL_SECONDS)
        except ray.exceptions.GetTimeoutError:
            continue
        except SystemError as error:  # how compiled code reports an exception of a signal handler
            raise error.__cause__ or error from None
