"""Console output: results to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from finder.progress.best_effort_stream import BestEffortStream
from finder.progress.guarded_live import DisplayConsole
from finder.progress.plain_text import PlainConsole, plain_json, truncate_long_words
from finder.progress.text_layout import HangingIndent
from studies.defaults import DEFAULT_STORAGE
from studies.redaction import redacted

if TYPE_CHECKING:
    from agents.environments import EnvironmentSpec

_UNCUT = 10_000
"""Width of a file or a pipe, where nothing is truncated or wrapped."""


def results() -> Console:
    """Return the console for results (stdout)."""
    return _console(sys.stdout)


def errors() -> Console:
    """Return the console for messages (stderr); write errors are ignored, see `BestEffortStream`."""
    return _console(cast(TextIO, BestEffortStream(sys.stderr)))


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else _UNCUT
    return PlainConsole(file=file, width=width, highlight=False, markup=False, emoji=False)


def display() -> DisplayConsole:
    """Return the console of a live display, which also works while stderr is redirected (`agents.backend.silence`)."""
    stream = sys.stderr
    with contextlib.suppress(OSError, ValueError):  # a stream without a file descriptor cannot be redirected
        stream = open(os.dup(stream.fileno()), "w", encoding=stream.encoding)  # noqa: SIM115 - lasts as the console
    return DisplayConsole(file=cast(TextIO, BestEffortStream(stream)), highlight=False, markup=False, emoji=False)


def can_redraw(console: Console) -> bool:
    """Return whether a console is a terminal on which lines can be redrawn, as live displays do."""
    return console.is_terminal and not console.is_dumb_terminal


def print_json(data: Any) -> None:
    """Print one JSON document as a result; NaN and infinities become null."""
    sys.stdout.write(plain_json(json.dumps(_finite(data), indent=2, ensure_ascii=False)) + "\n")


def print_error(message: str, hint: str = "") -> None:
    """Print an error message without a traceback, and a hint whose lines are not wrapped, since they have commands."""
    errors().print(Text.assemble(("Error: ", "bold red"), truncate_long_words(message)))
    if hint:
        errors().print(Text(re.sub(r"(^See |: )finder (?=[a-z])", _by_own_name, hint), "dim"), soft_wrap=True)


def _by_own_name(found: re.Match[str]) -> str:
    return f"{found[1]}{_program()} "


_WIDEST = 160
"""Width from which on purposes are below their commands."""


def print_commands(lead: str, commands: Iterable[tuple[str, str]]) -> None:
    """Print commands to copy, each with its purpose. Commands are never wrapped.

    They begin with the program as it was started, if the shell does not find it as `finder`. Purposes are beside the
    commands if all of them fit, else below.
    """
    console = errors()
    own = _program()
    rows = [
        (f"{own} {command.removeprefix('finder ')}" if command.startswith("finder ") else command, purpose)
        for command, purpose in commands
    ]
    indent = len(lead) + 2
    longest = max(len(command) for command, _ in rows)
    width = min(console.width, _WIDEST)  # without a terminal, the console is as wide as the longest line
    beside = all(indent + longest + 3 + len(purpose) <= width for _, purpose in rows if purpose)
    for index, (command, purpose) in enumerate(rows):
        start = f"{lead}  " if index == 0 else " " * indent
        line = Text.assemble((start, "dim"), (command, "cyan"))
        if purpose and beside:
            line.append(f"{' ' * (longest - len(command))}   {purpose}", "dim")
        console.print(line, soft_wrap=True)
        if purpose and not beside:
            console.print(HangingIndent(Text(" " * (indent + 2)), Text(purpose, "dim")))


def _program() -> str:
    """Return the name by which the shell finds this program, such as `.venv/bin/finder` without its environment."""
    started = Path(sys.argv[0])
    if started.stem != "finder" or not started.is_file():  # such as a test, or a script of the user's
        return "finder"
    found = shutil.which("finder")
    if found is not None and os.path.samefile(found, started):
        return "finder"
    inside = os.path.relpath(started)
    if inside.startswith(os.pardir):
        return shlex.quote(str(started.absolute()))
    return shlex.quote(inside if os.sep in inside else os.path.join(os.curdir, inside))


def print_note(message: str) -> None:
    """Print a note about a result."""
    errors().print(HangingIndent(Text("Note  ", "yellow"), Text(message)))


def table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table without lines, whose cells are wrapped.

    Args:
        columns: Names of the columns.
        numbers: Names of right-aligned columns.
    """
    listed = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        least = max(map(len, column.split()))
        listed.add_column(column, justify="right" if column in numbers else "left", overflow="fold", min_width=least)
    return listed


def storage_for_file(named: str | None, flag: str | None) -> str | None:
    """Return the storage that overrides the one of a study file; None for the storage of the file.

    Args:
        named: The storage of the file, or None.
        flag: The value of `--storage`, or None.
    """
    exported = os.environ.get("OPTUNA_STORAGE")
    if flag is not None or named is None:
        return flag or exported or DEFAULT_STORAGE
    if exported and exported != named:
        errors().print(
            f"The study is written to {redacted(named)}, the storage in its file, not to OPTUNA_STORAGE; "
            "--storage overrides both.",
            style="yellow",
        )
    return None


def environment_flags(environment: EnvironmentSpec) -> str:
    """Return the flags of an environment, for commands to copy."""
    words = ["--env", environment.label]
    if environment.kwargs:
        words += ["--env-kwargs", json.dumps(dict(environment.kwargs), default=repr)]
    for wrapper in environment.described["wrappers"]:
        words += ["--wrapper", wrapper]
    if environment.max_episode_steps is not None:
        words += ["--max-episode-steps", str(environment.max_episode_steps)]
    return shlex.join(words)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and data - data != 0:
        return None
    return data
