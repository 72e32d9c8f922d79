"""A page per example: its first docstring, then its code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any


def _sources(root: Path) -> list[Path]:
    return sorted([*(root / "examples").glob("*.py"), *(root / "examples").glob("*.toml")])


def page_of(source: str) -> str:
    """Return the page of a file in `examples/`."""
    return f"examples/{Path(source).name.replace('.', '_')}.md"


def navigation(root: Path) -> list[Any]:
    """Return the entries of the navigation."""
    return [{path.name: page_of(path.name)} for path in _sources(root)]


def pages(root: Path) -> dict[str, str]:
    """Return path and text of each page."""
    return {page_of(path.name): _page(path) for path in _sources(root)}


def _page(path: Path) -> str:
    text = path.read_text()
    intro, language = "", path.suffix[1:]
    if language == "py":
        intro, language = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0], "python"
    return f"# {path.name}\n\n{intro}\n\n```{language}\n{text.rstrip()}\n```\n"
