"""What other machines call this one."""

from __future__ import annotations

import socket


def reachable(host: str) -> str:
    """Returns where others reach what listens on a host: this machine's address towards them where it is on all."""
    if host != "0.0.0.0":
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent; this is nobody's address (RFC 5737)
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])
