"""Errors of ports that a server cannot listen on."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

from studies.errors import StudyError


@contextlib.contextmanager
def port_errors(host: str, port: int, flag: str = "--port") -> Iterator[None]:
    """Raise `StudyError` if a server that is bound in the block cannot listen there.

    Args:
        host: Interface to listen on.
        port: Port to listen on.
        flag: Flag that gives another port. Defaults to ``"--port"``.
    """
    try:
        yield
    except socket.gaierror as error:
        raise StudyError(
            f"host is {host!r}, which is not an address of this machine ({error}): use 127.0.0.1."
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StudyError(
                f"port {port} on {host} is taken: stop what runs there, or choose another {flag}."
            ) from None
        if error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
            raise StudyError(
                f"port {port} on {host} is not allowed ({error.strerror}): choose another port or host."
            ) from None
        raise


def check_port(host: str, port: int) -> None:
    """Bind a port for a moment.

    Raises:
        StudyError: It is taken or not allowed, or the host is no address of this machine.
    """
    with port_errors(host, port):
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, which may start again at once
            own.bind(address)
