"""A page per tutorial: the cells of a notebook and their stored outputs, with its pictures beside the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "docs/tutorials"


def notebooks(root: Path) -> list[Path]:
    """Return the notebooks."""
    return sorted((root / FOLDER).glob("*.ipynb"))


def page_of(source: str) -> str:
    """Return the page of a notebook in `docs/tutorials`."""
    return f"tutorials/{Path(source).stem}.md"


def title_of(path: Path) -> str:
    """Return the heading of a notebook."""
    return text_of(json.loads(path.read_text())["cells"][0]).splitlines()[0].removeprefix("# ")


def navigation(root: Path) -> list[Any]:
    """Return the entries of the navigation."""
    return [{title_of(path): page_of(path.name)} for path in notebooks(root)]


def pages(root: Path) -> dict[str, str | bytes]:
    """Return path and content of each page and of each picture."""
    found: dict[str, str | bytes] = {}
    for path in notebooks(root):
        found |= _pages_of(path)
    return found


def text_of(cell: Mapping[str, Any]) -> str:
    """Return the source of a cell, which a notebook stores as a text or as lines."""
    return _joined(cell["source"])


def _pages_of(path: Path) -> dict[str, str | bytes]:
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "markdown":
            parts.append(text_of(cell))
            continue
        parts.append(f"```python\n{text_of(cell)}\n```")
        for index, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{number}-{index}.png"
                pictures[f"tutorials/{name}"] = base64.b64decode(_joined(data["image/png"]))
                parts.append(f"![Output of the cell]({name})")
            elif "text/html" in data:
                parts.append(f'<div class="output">\n{_joined(data["text/html"]).strip()}\n</div>')
            elif text := _joined(data.get("text/plain") or (output.get("text", "") if _is_stdout(output) else "")):
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.insert(1, f"*This page is the notebook `{FOLDER}/{path.name}`, with the outputs of one run.*")
    return {page_of(path.name): "\n\n".join(parts) + "\n", **pictures}


def _is_stdout(output: Mapping[str, Any]) -> bool:
    return output["output_type"] == "stream" and output["name"] == "stdout"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
