"""Command lines that are mistakes, what is said of each, and the folder of damaged files that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HUGE = "9" * 30
"""A number that has no 64 bits."""

NESTED = "[" * 100_000
"""JSON, or TOML, that is too deep to be read."""


class Mistake(NamedTuple):
    """A command line, and what its one message has to hold: the value that is wrong, and what is allowed or to do."""

    line: str
    value: str
    advice: str

    @property
    def words(self) -> list[str]:
        """The command's words; `PPO`, `HUGE` and `NESTED` stand for longer ones."""
        line = self.line.replace("PPO", "ppo --env CartPole-v1").replace("HUGE", HUGE)
        return [word.replace("NESTED", NESTED) for word in shlex.split(line)]


def check(case: Mistake, code: int, out: str, err: str) -> None:
    """Asserts that a mistake was told as all are: in one message, with exit code 2 and nothing on stdout."""
    assert code == 2, f"exit code {code}: {err[-2000:]}"
    assert out == ""
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert sum(line.startswith("Error: ") for line in lines) == 1, err[-2000:]
    message, *hints = lines
    assert message.startswith("Error: "), err[-2000:]
    # A study's file has a line for each mistake in it.
    assert all(re.match(r"See (finder|--)|\S+\.toml[:,] ", hint) for hint in hints), err[-2000:]
    assert len(message) < 1_500, f"{len(message)} characters"
    told = message.lower()
    assert case.value.replace("HUGE", HUGE).lower() in told, message
    assert case.advice.lower() in told, message
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", err), repr(err)


def ids(cases: list[Mistake]) -> list[str]:
    """Names of cases, as pytest shows them."""
    return [case.line[:70] for case in cases]


def write_all(folder: Path, files: dict[str, str | bytes]) -> None:
    """Writes files into a folder, with the folders that they are in."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)


Run = Callable[..., Any]
