"""Run the tutorials and store their outputs in them: `make notebooks`. Needs Chromium for the figures.

    python docs/generate/execute_notebooks.py [NOTEBOOK ...]

Every notebook runs in an empty folder. Figures of Plotly are stored as pictures, so that a notebook stays small and is
shown everywhere; running it gives the figures themselves.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import notebook_pages
import plotly.graph_objects as go
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
PLOTLY = "application/vnd.plotly.v1+json"
WIDTH, HEIGHT = 900, 440


def executed(path: Path) -> Any:
    """Return a notebook with the outputs of a run.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an error.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
    return notebook


def with_pictures(notebook: Any) -> Any:
    """Replace figures by pictures, and leave out what differs from run to run without meaning."""
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            figure = output.get("data", {}).get(PLOTLY)
            if figure is not None:
                output["data"] = {"image/png": base64.b64encode(_picture(figure)).decode(), "text/plain": "Figure"}
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def _picture(figure: dict[str, Any]) -> bytes:
    sys.path.insert(0, str(ROOT))
    from benchmarks.picture import screenshot

    drawn = go.Figure({"data": figure["data"], "layout": figure["layout"]}).update_layout(width=WIDTH, height=HEIGHT)
    with tempfile.TemporaryDirectory() as folder:
        screenshot(drawn, Path(folder) / "figure.png", WIDTH, HEIGHT)
        return (Path(folder) / "figure.png").read_bytes()


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or notebook_pages.notebooks(ROOT):
        nbformat.write(with_pictures(executed(path)), path)
        print(path)
