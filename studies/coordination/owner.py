"""A process that holds something, as text: so that on its own machine it is known at once whether it still lives."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from studies.database.damage import damaged


class Owner(NamedTuple):
    """A process.

    Attributes:
        host: The name of its machine, for people.
        machine: What tells machines, and containers with process tables of their own, apart.
        pid: Its process id.
        started: When it started in clock ticks since the machine did, "" where nobody knows.
        token: What tells its owners apart: a process may run several studies.
    """

    host: str
    machine: str
    pid: int
    started: str
    token: str

    @classmethod
    def new(cls) -> Owner:
        """An owner of this process, like no other."""
        pid = os.getpid()
        host = socket.gethostname().replace(" ", "-")[:100] or "somewhere"
        return cls(host, _machine(), pid, _started(pid), secrets.token_hex(8))

    @classmethod
    def read(cls, text: str) -> Owner:
        """The owner that a text stands for.

        Raises:
            DamagedError: It stands for none.
        """
        try:
            host, machine, pid, started, token = text.split(" ")
            return cls(host, machine, int(pid), started, token)
        except ValueError:
            raise damaged("a lease of a study", f"its owner is {text!r}, which is no process") from None

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @property
    def is_this_process(self) -> bool:
        """Whether it is, or was, an owner of this process."""
        return (self.machine, self.pid, self.started) == (_machine(), os.getpid(), _started(os.getpid()))

    @property
    def is_dead(self) -> bool:
        """Whether it was a process of this machine that is gone; False for all others, of which nobody knows here.

        A process id that was given anew is told apart by the process's start.
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
    """This start of this machine, and which of its process tables we see; its name where nobody knows more."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        table = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return socket.gethostname().replace(" ", "-")[:100]
    return f"{boot[:18]}-{''.join(filter(str.isdigit, table))}"


def _started(pid: int) -> str:
    """When a process started, "" where /proc does not exist (not Linux) or it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field is the command in brackets and may hold spaces and brackets itself.
    return text.rpartition(")")[2].split()[19]
