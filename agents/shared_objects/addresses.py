"""The address of this machine as other machines see it."""

from __future__ import annotations

import socket


def reachable(host: str) -> str:
    """Return the address at which other machines reach `host`: this machine's own address for ``0.0.0.0``."""
    if host != "0.0.0.0":
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends no packet; the address is reserved for documentation (RFC 5737)
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])
