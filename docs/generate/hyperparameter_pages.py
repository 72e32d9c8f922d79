"""A page with the hyperparameters of every algorithm, from the fields of their configs; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PAGE = "hyperparameters.md"

_RENAMED = {"live": "mutable"}
"""Keyword of `hyperparameter` -> the word of the page."""


def pages(root: Path) -> dict[str, str]:
    """Return path and text of the page."""
    lines = [
        "# Hyperparameters",
        "",
        "Every setting of each algorithm. It is set in Python by `agents.make('ppo', 'CartPole-v1', gamma=0.98)`, on "
        "the command line by `--set gamma=0.98`, in a study's file under `[fixed]`. `finder tune` searches all that "
        "have a usual range, or those that `--param` names. A *mutable* hyperparameter may change while an agent "
        "trains.",
        "",
    ]
    for name, path in _algorithms(root).items():
        agent = path.rpartition(":")[2]
        lines += [f"## {name}", "", f"[`agents.{agent}`][agents.{agent}]", ""]
        lines += ["| name | default | usual range | |", "|---|---|---|---|"]
        lines += [_row(field, call) for field, call in fields(root, _config_of(root, agent)).items()]
        lines.append("")
    return {PAGE: "\n".join(lines)}


def fields(root: Path, config: str) -> dict[str, ast.Call]:
    """Return name of each hyperparameter of a config -> the call that declares it, as the nearest class has it."""
    found: dict[str, ast.Call] = {}
    for parent in reversed(_order(root, config)):
        for name, value in _declared(_classes(root)[parent]):
            found[name] = value
    return found


def _row(name: str, call: ast.Call) -> str:
    default, text = call.args[0], ast.literal_eval(call.args[1])
    about = _about(call)
    notes = str(text)
    if any(old in about and ast.literal_eval(about[old]) for old in (*_RENAMED, *_RENAMED.values())):
        notes += " *Mutable.*"
    return f"| `{name}` | {_code(default)} | {_range(about)} | {_cell(notes)} |"


def _about(call: ast.Call) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call, those of `**{...}` included."""
    about: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            about[keyword.arg] = keyword.value
        elif isinstance(keyword.value, ast.Dict):
            pairs = zip(keyword.value.keys, keyword.value.values, strict=True)
            about.update({key.value: value for key, value in pairs if isinstance(key, ast.Constant)})
    return about


def _range(about: dict[str, ast.expr]) -> str:
    if "search" not in about:
        return ""
    try:
        values = ast.literal_eval(about["search"])
    except ValueError:
        return _code(about["search"])
    is_range = len(values) == 2 and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    if not is_range:
        return ", ".join(f"`{each}`" for each in values)
    log = " (log)" if "log" in about and ast.literal_eval(about["log"]) else ""
    if "complement" in about:
        log = " (log of 1 less its value)"
    return f"{values[0]:g} to {values[1]:g}{log}"


def _code(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return f"`{_cell(ast.unparse(node))}`"
    return f"`{value}`" if value != "" else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _declared(definition: ast.ClassDef) -> Iterator[tuple[str, ast.Call]]:
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Name) and called.id == "hyperparameter":
                yield node.target.id, node.value


def _algorithms(root: Path) -> dict[str, str]:
    for node in ast.parse((root / "agents" / "contract" / "registry.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALGORITHMS":
            return dict(ast.literal_eval(node.value))
    raise ValueError("agents/contract/registry.py has no dictionary ALGORITHMS")


def _config_of(root: Path, agent: str) -> str:
    for parent in _order(root, agent):
        for node in _classes(root)[parent].body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == "config_class" for target in targets):
                return ast.unparse(node.value)  # type: ignore[attr-defined]
    raise ValueError(f"{agent} has no config_class")


@cache
def _classes(root: Path) -> dict[str, ast.ClassDef]:
    """Return the classes of `agents` that configs and algorithms are made of, by name."""
    found = {}
    for room in ("config", "contract", "algorithms"):
        for path in sorted((root / "agents" / room).rglob("*.py")):
            found.update(
                {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
            )
    return found


@cache
def _order(root: Path, name: str) -> list[str]:
    """Return a class and its parents, in the order in which Python looks names up in them."""
    return [each.__name__ for each in _stand_in(root, name).__mro__ if each.__name__ in _classes(root)]


@cache
def _stand_in(root: Path, name: str) -> Any:
    bases = [ast.unparse(base) for base in _classes(root)[name].bases]
    return type(name, tuple(_stand_in(root, base) for base in bases if base in _classes(root)), {})
