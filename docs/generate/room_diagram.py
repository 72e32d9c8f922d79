"""The rooms of a package, drawn in layers from their imports: a room imports rooms of lower layers only."""

from __future__ import annotations

import ast
from pathlib import Path


def drawn(root: Path, package: str) -> str:
    """Return the diagram as HTML, the highest layer first."""
    rows = []
    for layer in reversed(layers(imports(root, package))):
        boxes = "".join(f'<span class="room">{room}</span>' for room in layer)
        rows.append(f'<div class="layer">{boxes}</div>')
    return f'<div class="rooms" role="img" aria-label="Layers of {package}">{"".join(rows)}</div>'


def imports(root: Path, package: str) -> dict[str, set[str]]:
    """Return room -> the rooms that it imports, imports in functions and under `TYPE_CHECKING` included."""
    folder = root / package
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    graph: dict[str, set[str]] = {room: set() for room in rooms}
    for room in rooms:
        for path in (folder / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module == package:
                    modules += [f"{package}.{alias.name}" for alias in node.names]
                for module in modules:
                    parts = module.split(".")
                    if parts[0] == package and len(parts) > 1 and parts[1] in rooms - {room}:
                        graph[room].add(parts[1])
    return graph


def layers(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms in layers, the lowest first; each room is in the lowest layer above all that it imports.

    Rooms that import each other in a circle are in one layer.
    """
    left, found = dict(graph), []
    while left:
        layer = sorted(room for room, needed in left.items() if not needed & set(left)) or sorted(left)
        found.append(layer)
        for room in layer:
            del left[room]
    return found
