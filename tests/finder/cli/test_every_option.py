"""Test that every option of every command is used by a test of its effect."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from finder.cli.app import app
from finder.cli.options.parameters import SearchOptions

HERE = Path(__file__).parent
SEARCHES = ("lr", "opt", "agents", "tune")
OF_SEARCHES = {field.name for field in dataclasses.fields(SearchOptions)}
"""Parameters declared once for all searches: a test with one of the searches is enough."""


class Option(NamedTuple):
    """An option, or one of the two forms of a boolean option."""

    commands: tuple[str, ...]  # a test with one of these is enough
    names: tuple[str, ...]


def options_of(application: typer.Typer) -> Iterator[Option]:
    """Yield all options, and those shared by all searches once."""
    group: Any = typer.main.get_command(application)
    seen = set()
    for name, command in group.commands.items():
        for parameter in command.params:
            if parameter.param_type_name != "option":
                continue
            shared = name in SEARCHES and parameter.name in OF_SEARCHES
            for names in (parameter.opts, parameter.secondary_opts):
                is_default = bool(parameter.secondary_opts) and (parameter.default is True) == (names is parameter.opts)
                option = Option(SEARCHES if shared else (name,), tuple(names))
                if names and not is_default and option not in seen:
                    seen.add(option)
                    yield option


class Source:
    """The words that tests of some files pass to commands.

    Words are collected from arguments of calls and from lists, not from comparisons: a flag in a message is not used.
    Tests of mistakes are not counted.
    """

    def __init__(self, texts: Iterable[str], shared: str = "") -> None:
        self._helpers = _definitions(ast.parse(shared))
        self.tests: dict[str, set[str]] = {}
        for text in texts:
            known = {**self._helpers, **_definitions(ast.parse(text))}
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and "mistake" not in node.name:
                    self.tests[node.name] = _words(node, known, {node.name})

    def uses(self, option: Option) -> bool:
        """Return whether a test passes an option to a command that has it."""
        return any(
            words.intersection(option.names) and words.intersection(option.commands) for words in self.tests.values()
        )


def _definitions(module: ast.Module) -> dict[str, ast.AST]:
    """Return functions, methods and constants by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
            found[node.name] = node
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def _words(node: ast.AST, known: Mapping[str, ast.AST], seen: set[str]) -> set[str]:
    """Return the words of a test and of the fixtures, helpers and constants that it names."""
    words: set[str] = set()
    for each in ast.walk(node):
        given: list[ast.AST] = []
        if isinstance(each, ast.Call):
            given = [*each.args, *(one.value for one in each.keywords if one.arg != "match")]
        elif isinstance(each, ast.Tuple | ast.List):
            given = [*each.elts]
        elif isinstance(each, ast.Dict):
            given = [*each.values]
        for one in given:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                words |= {word.partition("=")[0] for word in one.value.split()}
        names = {getattr(each, "id", None), getattr(each, "attr", None), getattr(each, "arg", None)}
        for name in names & known.keys() - seen:
            words |= _words(known[str(name)], known, seen | {str(name)})
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        words |= set(node.value.split())
    return words


def suite() -> Source:
    files = [file for file in sorted(HERE.rglob("test_*.py")) if "bad_" not in file.name]
    assert len(files) > 10
    return Source([file.read_text() for file in files], (HERE / "conftest.py").read_text())


def test_every_option_has_a_test() -> None:
    found, options = suite(), list(options_of(app))
    assert len(options) > 100
    unused = [f"{'|'.join(each.commands)} {'/'.join(each.names)}" for each in options if not found.uses(each)]
    assert unused == [], "no test uses these options: write one that checks their effect"


def test_options_of_lists_the_options_of_an_application() -> None:
    application = typer.Typer()

    @application.command("lr")
    def lr(env: str = "", colour: bool = True, tint: bool = typer.Option(False, "--tint", "-t")) -> None: ...

    @application.command("opt")
    def opt(env: str = "") -> None: ...

    assert list(options_of(application)) == [
        Option(SEARCHES, ("--env",)),
        Option(("lr",), ("--no-colour",)),
        Option(("lr",), ("--tint", "-t")),
    ]


TESTS = """
WORDS = ("lr", "--constant=1")

def helper(finder):
    finder("--of-helper 3")

def test_one(fixture):
    "A docstring says --docstring."
    helper(finder)
    ran = finder(*WORDS, "ppo", "--given")
    assert "--compared" in ran.err
    assert ran.out == "--equal"

def test_a_mistake(finder):
    finder("lr", "--mistaken")

class TestMore:
    def test_two(self, finder):
        for words in (("--listed", "3"),):
            finder("opt", *words)
"""
SHARED = """
def fixture():
    return Finder("--of-fixture")
"""


def test_source_finds_the_words_of_tests() -> None:
    found = Source([TESTS], SHARED)
    used = [
        (command, name)
        for command in ("lr", "opt")
        for name in (
            "--constant", "--of-helper", "--of-fixture", "--given", "--listed",
            "--docstring", "--compared", "--equal", "--mistaken",
        )
        if found.uses(Option((command,), (name,)))
    ]  # fmt: skip
    assert used == [
        ("lr", "--constant"), ("lr", "--of-helper"), ("lr", "--of-fixture"), ("lr", "--given"), ("opt", "--listed"),
    ]  # fmt: skip
