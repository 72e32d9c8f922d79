"""Command lines with mistakes, checks of their messages, and the files that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HUGE = "9" * 30
"""A number that does not fit into 64 bits."""

NESTED = "[" * 100_000
"""JSON or TOML with too many levels."""


class Mistake(NamedTuple):
    """A command line, and the content of its message: the wrong value, and the allowed values or the remedy."""

    line: str
    value: str
    advice: str

    @property
    def words(self) -> list[str]:
        """Words of the command, with `PPO`, `HUGE` and `NESTED` replaced by longer ones."""
        line = self.line.replace("PPO", "ppo --env CartPole-v1").replace("HUGE", HUGE)
        return [word.replace("NESTED", NESTED) for word in shlex.split(line)]


def check(case: Mistake, code: int, out: str, err: str) -> None:
    """Assert that a mistake is reported in one message, with exit code 2 and nothing on stdout."""
    assert code == 2, f"exit code {code}: {err[-2000:]}"
    assert out == ""
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert sum(line.startswith("Error: ") for line in lines) == 1, err[-2000:]
    message, *hints = lines
    assert message.startswith("Error: "), err[-2000:]
    # A study file has a line for each of its mistakes.
    assert all(re.match(r"See (finder|--)|\S+\.toml[:,] ", hint) for hint in hints), err[-2000:]
    assert len(message) < 1_500, f"{len(message)} characters"
    shown = message.lower()
    assert case.value.replace("HUGE", HUGE).lower() in shown, message
    assert case.advice.lower() in shown, message
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", err), repr(err)


def ids(cases: list[Mistake]) -> list[str]:
    """Return the names of cases for pytest."""
    return [case.line[:70] for case in cases]


def write_all(folder: Path, files: dict[str, str | bytes]) -> None:
    """Write files into a folder, and create their parent folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)


Run = Callable[..., Any]
