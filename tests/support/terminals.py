"""Programs in a pseudo-terminal, and the lines that they show."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyte

_LAUNCH = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C in this terminal is sent to this process
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # a parent may ignore it
os.execvp(sys.argv[1], sys.argv[1:])
"""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][AB0]|\x1b[=>]")


class Typed(NamedTuple):
    """Keys to press once a text is on the screen."""

    after: str
    keys: str


class Shown(NamedTuple):
    """Exit code and output of a program."""

    code: int
    raw: str  # the complete output
    lines: list[str]  # the screen at the end, and the lines above it

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    @property
    def written(self) -> list[str]:
        """All lines ever written, including those of a live display, without colours and before the terminal wraps."""
        return [line.rstrip() for line in re.split(r"[\r\n]+", _CONTROL.sub("", self.raw)) if line.strip()]


def in_terminal(
    words: Sequence[str],
    folder: Path,
    *,
    columns: int,
    rows: int = 24,
    typed: Sequence[Typed] = (),
    environment: Mapping[str, str] | None = None,
    seconds: float = 300.0,
) -> Shown:
    """Run a program to its end in a pseudo-terminal.

    Args:
        words: The program and its arguments.
        folder: Working directory.
        columns: Width of the terminal.
        rows: Height of the terminal.
        typed: Keys to press, in this order.
        environment: Environment variables in addition to those of this process.
        seconds: Time limit.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    unset = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTEST_CURRENT_TEST", "OPTUNA_STORAGE", "DISPLAY"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, *words],
        cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True,
        env={**kept, "TERM": "xterm-256color", **(environment or {})},
    )  # fmt: skip
    os.close(its)
    try:
        raw = _read(ours, typed, time.monotonic() + seconds)
        code = process.wait(timeout=seconds)
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()
    return Shown(code, raw, lines_of(raw, columns, rows))


def lines_of(raw: str, columns: int, rows: int = 24) -> list[str]:
    """Return the lines that a terminal shows after an output, including those scrolled off the top."""
    screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=1.0)
    pyte.Stream(screen).feed(raw)
    above = ["".join(line[column].data for column in range(columns)) for line in screen.history.top]
    lines = [line.rstrip() for line in (*above, *screen.display)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _read(descriptor: int, typed: Sequence[Typed], deadline: float) -> str:
    """Read until the program has closed the terminal."""
    raw, waiting = b"", list(typed)
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"it is not at its end in time; it wrote\n{raw.decode(errors='replace')[-4000:]}"
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # raised by Linux when the other side is closed
            chunk = b""
        if not chunk:
            break
        raw += chunk
        if waiting and waiting[0].after in _CONTROL.sub("", raw.decode(errors="replace")):
            with contextlib.suppress(OSError):
                os.write(descriptor, waiting.pop(0).keys.encode())
    assert not waiting, f"{waiting[0].after!r} was never shown:\n{raw.decode(errors='replace')[-4000:]}"
    return raw.decode(errors="replace")
