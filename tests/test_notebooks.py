"""Tests of the tutorials: their outputs are those of a run, their pages have them, and their code runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import notebook_pages
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = notebook_pages.notebooks(ROOT)
MOST_BYTES = 1_000_000


def code_of(path: Path) -> list[Any]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_of_one_run_without_errors(path: Path) -> None:
    cells = code_of(path)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)], "run `make notebooks`"
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert "error" not in kinds
    assert "image/png" in str(cells)
    assert "application/vnd.plotly" not in path.read_text()
    assert path.stat().st_size < MOST_BYTES


def test_pages_have_cells_outputs_and_pictures() -> None:
    pages = notebook_pages.pages(ROOT)
    page = pages["tutorials/find-a-learning-rate.md"]
    assert isinstance(page, str)
    assert page.startswith("# Find a learning rate")
    assert "```python\nfrom finder import LRFinder" in page
    assert "safe" in page
    pictures = [name for name in pages if name.startswith("tutorials/find-a-learning-rate-")]
    assert len(pictures) == 2
    for name in pictures:
        assert Path(name).name in page
        assert pages[name][:4] == b"\x89PNG"
    assert {next(iter(entry.values())) for entry in notebook_pages.navigation(ROOT)} == {
        name for name in pages if name.endswith(".md")
    }


@pytest.mark.slow
@pytest.mark.real
def test_code_runs(tmp_path: Path) -> None:
    arguments = []
    for path in NOTEBOOKS:
        folder = tmp_path / path.stem
        folder.mkdir()
        page = folder / f"{path.stem}.md"
        page.write_text("".join(f"```python\n{notebook_pages.text_of(cell)}\n```\n\n" for cell in code_of(path)))
        arguments += [str(page), str(folder)]
    command = [sys.executable, str(ROOT / "tests" / "support" / "run_page.py"), *arguments]
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    named = {**os.environ, "PYTHONPATH": places}
    ran = subprocess.run(command, capture_output=True, text=True, env=named, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert len(ran.stdout.splitlines()) >= len(NOTEBOOKS)
