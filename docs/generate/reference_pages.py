"""The reference: the public names of each package, a page per room that defines some of them.

mkdocstrings reads the docstrings of the sources; nothing is imported.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

from public_names import PublicName, public_names

PACKAGES = ("agents", "finder", "studies")

_WITH_INHERITED = ("studies.StudySpec",)
"""Public names whose base classes, which are not public, define some of their members."""


@cache
def _rooms(root: Path, package: str) -> dict[str, list[PublicName]]:
    """Return room -> its public names."""
    rooms: dict[str, list[PublicName]] = {}
    for each in public_names(root, package):
        rooms.setdefault(each.room, []).append(each)
    return dict(sorted(rooms.items()))


def navigation(root: Path, package: str) -> list[Any]:
    """Return the entries of the navigation for one package."""
    return [
        f"reference/{package}/index.md",
        *({room: f"reference/{package}/{room}.md"} for room in _rooms(root, package)),
    ]


def pages(root: Path) -> dict[str, str]:
    """Return path and text of each page."""
    made = {}
    for package in PACKAGES:
        rooms = _rooms(root, package)
        made[f"reference/{package}/index.md"] = _index(root, package, rooms)
        for room, names in rooms.items():
            made[f"reference/{package}/{room}.md"] = _room_page(root, package, room, names)
    return made


def _index(root: Path, package: str, rooms: dict[str, list[PublicName]]) -> str:
    lines = [f"# {package}", "", _docstring(root / package).split("\n\n")[0], "", "| name | |", "|---|---|"]
    for each in sorted(each for names in rooms.values() for each in names):
        summary = _summary(root, each.module, each.name).replace("|", r"\|")
        lines.append(f"| [`{each.path}`]({each.room}.md#{each.path}) | {summary} |")
    return "\n".join(lines) + "\n"


def _room_page(root: Path, package: str, room: str, names: list[PublicName]) -> str:
    intro = _docstring(root / package / room) if room != package else ""
    lines = [f"# {room if room == package else f'{package}.{room}'}", "", intro, ""]
    for each in names:
        lines += [
            f"::: {each.path}",
            "    options:",
            f"      heading: {each.path}",
            f"      toc_label: {each.name}",
            *(["      inherited_members: true"] if each.path in _WITH_INHERITED else []),
            "",
        ]
    return "\n".join(lines)


def _docstring(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def _summary(root: Path, module: str, name: str) -> str:
    """Return the first sentence of a name's docstring, "" where it has none."""
    path = root / Path(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(source.read_text()).body
    for place, node in enumerate(body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name and ast.get_docstring(node):
            return _first(ast.get_docstring(node))
        assigned = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in assigned):
            after = body[place + 1] if place + 1 < len(body) else None
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return _first(str(after.value.value)) if is_text else ""
        if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
            return _summary(root, str(node.module), name)
    return ""


def _first(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split())
