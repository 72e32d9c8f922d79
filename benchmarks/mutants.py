"""Mutation check: single-line faults in different rooms, and whether the tests of that room catch them.

    python -m benchmarks.mutants                    # 40 faults (`make mutants`); those that were tried are not repeated
    python -m benchmarks.mutants --n 80 --seed 1
    python -m benchmarks.mutants --list             # only show the faults
    python -m benchmarks.mutants --again            # those that survived are tried again, with the tests of now

A fault flips a comparison, a sign or a condition, drops a `not`, or is off by one. The first faults are always those of
`BY_HAND`, which earlier tests did not catch. Each is put into a copy of the repository, in which the quick tests of its
room run until the first failure; where they pass, those of its package. When all faults were tried, the slow and real
tests of their rooms run for those that are left. A fault that all of them pass has survived: a test is missing, or the
fault changes nothing (such as a faster path that is no longer taken). The report shows each survivor as a diff. Results
go to benchmarks/results/mutants.csv and mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import csv
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import folders

PACKAGES = ("agents", "studies", "finder")
SECONDS = 900
"""A fault that keeps the tests busy for longer is caught: it hangs something."""

QUICK, REST = "not slow and not real", "slow or real"
"""Marks of the tests that `make test` runs, and of those that only `make test-all` does."""

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SIGNS: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
COLUMNS = ("path", "line", "kind", "before", "after", "tried", "caught", "by", "seconds")


class Fault(NamedTuple):
    """One line of one file, and what it becomes."""

    path: str
    line: int
    kind: str
    before: str
    after: str

    @property
    def room(self) -> str:
        """The folder that the file is in."""
        return str(Path(self.path).parent)

    @property
    def key(self) -> tuple[str, str, str]:
        """Path and both texts of the line: the identity of a fault, wherever its line is now."""
        return self.path, self.before, self.after


BY_HAND = (
    (
        "finder/range_test/sweep.py",
        "self._agent.set_learning_rate(self._rate, self._optimizer)",
        "self._agent.set_learning_rate(self._rate)",
    ),
    ("agents/self_play/self_play.py", "agent.set_acting_state(self.state)", "pass"),
    (
        "finder/finders/optimizer.py",
        "best_values = grouped.max() if maximize else grouped.min()",
        "best_values = grouped.max()",
    ),
    (
        "agents/algorithms/continuous.py",
        "losses = [self.mean(batch, ops.square(value - targets)) for value in values]",
        "losses = [ops.mean(ops.square(value - targets)) for value in values]",
    ),
)
"""Path, line and faulty line of the permanent faults."""


def faults_by_hand() -> Iterator[Fault]:
    """Yield the permanent faults.

    Raises:
        ValueError: A line has changed since.
    """
    for path, before, after in BY_HAND:
        lines = [line.strip() for line in (folders.REPOSITORY / path).read_text().splitlines()]
        if before not in lines:
            raise ValueError(f"{path} has no line {before!r} any more: correct BY_HAND in benchmarks/mutants.py.")
        yield Fault(path, lines.index(before) + 1, "by hand", before, after)


def faults_in(path: Path) -> Iterator[Fault]:
    """Yield the single-line faults of a file, without those in texts, annotations and error messages."""
    source = path.read_text()
    lines = source.splitlines()
    for node in _code(ast.parse(source)):
        if getattr(node, "lineno", 0) != getattr(node, "end_lineno", -1):
            continue
        for kind, start, end, text in _edits(node, lines):
            before = lines[node.lineno - 1]  # type: ignore[attr-defined]
            after = before[:start] + text + before[end:]
            try:
                ast.parse("\n".join([*lines[: node.lineno - 1], after, *lines[node.lineno :]]))  # type: ignore[attr-defined]
            except SyntaxError:
                continue
            yield Fault(str(path.relative_to(folders.REPOSITORY)), node.lineno, kind, before.strip(), after.strip())  # type: ignore[attr-defined]


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that compute something."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.FunctionDef) and child.name in ("__repr__", "__str__"):
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from _code(child)


def _edits(node: ast.AST, lines: list[str]) -> Iterator[tuple[str, int, int, str]]:
    """Yield kind, first and last column, and new text."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        start, end = node.left.end_col_offset or 0, node.comparators[0].col_offset
        between = lines[node.lineno - 1][start:end]
        if "(" not in between and ")" not in between:
            yield "comparison", start, end, f" {COMPARISONS[type(node.ops[0])]} "
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS and not _is_text(node):
        start, end = node.left.end_col_offset or 0, node.right.col_offset
        between = lines[node.lineno - 1][start:end]
        if "(" not in between and ")" not in between:
            yield "sign", start, end, f" {SIGNS[type(node.op)]} "
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.col_offset, node.operand.col_offset, ""
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        start, end = node.values[0].end_col_offset or 0, node.values[1].col_offset
        between = lines[node.lineno - 1][start:end]
        if "(" not in between and ")" not in between:
            yield "condition", start, end, " or " if isinstance(node.op, ast.And) else " and "
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= 10:
        yield "off by one", node.col_offset, node.end_col_offset or 0, str(node.value + 1)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(side, ast.Constant) and isinstance(side.value, str)
    ) for side in (node.left, node.right))  # fmt: skip


def chosen(n: int, seed: int) -> list[Fault]:
    """Return faults of different rooms in turns, of different kinds where a room has them."""
    drawn = random.Random(seed)
    rooms: dict[str, list[Fault]] = {}
    for package in PACKAGES:
        for path in sorted((folders.REPOSITORY / package).rglob("*.py")):
            for fault in faults_in(path):
                rooms.setdefault(fault.room, []).append(fault)
    found: list[Fault] = []
    order = sorted(rooms)
    drawn.shuffle(order)
    while len(found) < n:
        for room in order:
            used = [fault.kind for fault in found]
            kinds = sorted({fault.kind for fault in rooms[room]}, key=lambda kind: (used.count(kind), kind))
            if not kinds:
                continue
            fault = drawn.choice([each for each in rooms[room] if each.kind == kinds[0]])
            rooms[room].remove(fault)
            found.append(fault)
            if len(found) == n:
                break
    return found


def known_faults(rows: list[dict[str, str]]) -> Iterator[tuple[Fault, dict[str, str]]]:
    """Yield the faults of a table whose lines are still there, with their rows."""
    for row in rows:
        path = folders.REPOSITORY / row["path"]
        lines = [line.strip() for line in path.read_text().splitlines()] if path.exists() else []
        found = [number for number, line in enumerate(lines, start=1) if line == row["before"]]
        if found:
            line = min(found, key=lambda number: abs(number - int(row["line"])))
            yield Fault(row["path"], line, row["kind"], row["before"], row["after"]), row


def try_out(fault: Fault, copy: Path, marks: str) -> tuple[bool, str, float]:
    """Return whether tests with these marks caught a fault, which ones, and after how many seconds."""
    path = copy / fault.path
    sound = path.read_text()
    lines = sound.splitlines(keepends=True)
    line = lines[fault.line - 1]
    lines[fault.line - 1] = line.replace(fault.before, fault.after, 1)
    assert lines[fault.line - 1] != line, fault
    path.write_text("".join(lines))
    began = time.monotonic()
    try:
        for tests in _tests_of(fault, copy, marks):
            command = [sys.executable, "-m", "pytest", "-x", "--quiet", "--no-header", "-p", "no:cacheprovider", *tests]
            if os.cpu_count() != 1:
                command += ["-n", "auto", "--dist", "worksteal"]
            try:
                ran = subprocess.run(
                    command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
                    timeout=SECONDS, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return True, "a hang", time.monotonic() - began
            if ran.returncode not in (0, 5):
                failed = [row for row in ran.stdout.splitlines() if row.startswith(("FAILED", "ERROR"))]
                return True, failed[0].split(" - ")[0] if failed else "the tests stopped", time.monotonic() - began
        return False, "", time.monotonic() - began
    finally:
        path.write_text(sound)


def _tests_of(fault: Fault, copy: Path, marks: str) -> Iterator[list[str]]:
    """Yield the tests of the room; of the quick ones those of the package, too."""
    package = copy / "tests" / Path(fault.path).parts[0]
    room = copy / "tests" / fault.room
    while not room.is_dir():
        room = room.parent
    for tests in dict.fromkeys([room, package] if marks == QUICK else [room]):
        yield [str(tests), "-m", marks]


def write_report(rows: list[dict[str, str]]) -> None:
    """Write the share that was caught, and the survivors."""
    caught = [row for row in rows if row["caught"] == "True"]
    lines = [
        "# Mutation check", "",
        f"{len(caught)} of {len(rows)} single-line faults were caught ({100 * len(caught) / len(rows):.0f}%).",
        "Command: `make mutants`.", "", "| room | faults | caught |", "|---|---|---|",
    ]  # fmt: skip
    rooms = sorted({str(Path(row["path"]).parent) for row in rows})
    for room in rooms:
        own = [row for row in rows if str(Path(row["path"]).parent) == room]
        lines.append(f"| {room} | {len(own)} | {sum(row['caught'] == 'True' for row in own)} |")
    lines += ["", "Survivors:", ""]
    for row in rows:
        if row["caught"] != "True":
            lines += [f"- `{row['path']}:{row['line']}` ({row['kind']})", "", "  ```diff",
                      f"  - {row['before']}", f"  + {row['after']}", "  ```", ""]  # fmt: skip
    (folders.RESULTS / "mutants.md").write_text("\n".join(lines).rstrip() + "\n")


def main() -> None:
    """Try faults that were not tried yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=40, help="faults (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default 0)")
    parser.add_argument("--list", action="store_true", help="show them only")
    parser.add_argument("--again", action="store_true", help="try those that survived again")
    words = parser.parse_args()
    table = folders.RESULTS / "mutants.csv"
    rows = list(csv.DictReader(table.open())) if table.exists() else []
    known = {fault: {} if words.again and row["caught"] != "True" else row for fault, row in known_faults(rows)}
    permanent = list(faults_by_hand())
    known = {fault: known.get(fault, {}) for fault in permanent} | known
    keys = {fault.key for fault in known}
    drawn = (fault for fault in chosen(words.n, words.seed) if fault.key not in keys)
    faults = [*known, *drawn][: max(words.n, len(permanent))]
    if words.list:
        for fault in faults:
            print(f"{fault.path}:{fault.line} ({fault.kind})\n  - {fault.before}\n  + {fault.after}")
        return
    results = {fault: known.get(fault, {}) for fault in faults}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".venv", ".git", "demo", "site", "__pycache__", ".mypy_cache", ".ruff_cache")
        shutil.copytree(folders.REPOSITORY, copy, ignore=ignored)
        for marks, (number, fault) in itertools.product((QUICK, REST), enumerate(faults, start=1)):
            row = results[fault]
            if row and (row["caught"] == "True" or marks == QUICK or row["tried"] == REST):
                continue
            caught, by, seconds = try_out(fault, copy, marks)
            row.update(zip(COLUMNS, map(str, (*fault, marks, caught, by, f"{seconds:.0f}")), strict=True))
            rows = [row for row in results.values() if row]
            told = "caught" if caught else "SURVIVED"
            print(f"{number}/{len(faults)} {told} ({marks}) {fault.path}:{fault.line} {by}", flush=True)
            with table.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
            write_report(rows)


if __name__ == "__main__":
    main()
