"""Identity of a process as text, from which its liveness can be checked on the same machine."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from studies.database.damage import damaged


class Owner(NamedTuple):
    """Owner of leases: a process and a token.

    Attributes:
        host: Name of its machine, for messages.
        machine: Identity of the machine, or of a container with its own process table.
        pid: Process id.
        started: Start of the process in clock ticks since boot, "" if unknown.
        token: Distinguishes owners within a process, which may run several studies.
    """

    host: str
    machine: str
    pid: int
    started: str
    token: str

    @classmethod
    def new(cls) -> Owner:
        """Return a new owner of this process."""
        pid = os.getpid()
        host = socket.gethostname().replace(" ", "-")[:100] or "somewhere"
        return cls(host, _machine(), pid, _started(pid), secrets.token_hex(8))

    @classmethod
    def read(cls, text: str) -> Owner:
        """Return the owner that a text describes.

        Raises:
            DamagedError: If the text does not describe an owner.
        """
        try:
            host, machine, pid, started, token = text.split(" ")
            return cls(host, machine, int(pid), started, token)
        except ValueError:
            raise damaged("a lease of a study", f"its owner is {text!r}, which is not a process") from None

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @property
    def is_this_process(self) -> bool:
        """Return whether the owner belongs to this process."""
        return (self.machine, self.pid, self.started) == (_machine(), os.getpid(), _started(os.getpid()))

    @property
    def is_dead(self) -> bool:
        """Return whether the owner was a process of this machine that has ended; False for other machines.

        A reused process id is recognized by the start of the process.
        """
        if self.machine != _machine():
            return False
        if not _exists(self.pid):
            return True
        return bool(self.started) and _started(self.pid) not in ("", self.started)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _machine() -> str:
    """Return the boot id of this machine and its process namespace; the host name if they are unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        table = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return socket.gethostname().replace(" ", "-")[:100]
    return f"{boot[:18]}-{''.join(filter(str.isdigit, table))}"


def _started(pid: int) -> str:
    """Return the start of a process, "" if it has ended or there is no /proc (not Linux)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field is the command in brackets, which may contain spaces and brackets.
    return text.rpartition(")")[2].split()[19]
