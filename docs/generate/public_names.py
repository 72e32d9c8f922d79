"""The public names of a package and the modules that define them, read from its `__init__` without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUBPACKAGES = ("agents.callbacks", "agents.distributed", "agents.exploration", "agents.libraries", "finder.range_test")
"""Subpackages whose own public names scripts import too."""


class PublicName(NamedTuple):
    """A public name.

    Attributes:
        path: As a script imports it: `agents.Trainer`.
        module: The module that it is imported from there: `agents.training.trainer`.
        room: The room of that module; the package itself for a module outside of rooms.
    """

    path: str
    module: str
    room: str

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rpartition(".")[2]


def public_names(root: Path, package: str) -> list[PublicName]:
    """Return the public names of a package and of its public subpackages, sorted.

    Args:
        root: The folder that the package is in.
        package: Name of the package. Its names are those of `__all__` in `__init__.py`, whose imports may stand under
            `TYPE_CHECKING`, or all that `__init__.pyi` imports.
    """
    found = list(_names(root, package))
    for subpackage in SUBPACKAGES:
        if subpackage.startswith(f"{package}."):
            found += _names(root, subpackage)
    return sorted(found)


def _names(root: Path, package: str) -> Iterator[PublicName]:
    folder = root / Path(*package.split("."))
    stub = folder / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else folder / "__init__.py").read_text())
    homes = dict(_imported(tree, package))
    for name in homes if stub.exists() else _exported(tree) & set(homes):
        parts = homes[name].split(".")
        is_room = len(parts) > 1 and (root / parts[0] / parts[1]).is_dir()
        room = package.split(".")[1] if "." in package else parts[1] if is_room else package
        yield PublicName(f"{package}.{name}", homes[name], room)


def _imported(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = f"{package}.{node.module}" if node.level else node.module
            if module.split(".")[0] == package.split(".", maxsplit=1)[0]:
                yield from ((alias.asname or alias.name, module) for alias in node.names)


def _exported(tree: ast.Module) -> set[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
    return set()
