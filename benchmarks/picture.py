"""Draws the README's picture: the learning-rate curve of a study, as the product draws it, as a PNG.

    python -m benchmarks.picture demo sqlite:///demo/finder.db docs/learning-rate.png

Needs Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import plotly.graph_objects as go

from studies import load_study, plot_learning_rate

WIDTH, HEIGHT = 900, 440


def screenshot(figure: go.Figure, output: str | Path, width: int, height: int) -> None:
    """Writes a figure as a PNG of twice its size in points."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is not installed (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        # The page's own margin would shift the figure out of the picture.
        html = figure.to_html(include_plotlyjs=True, config={"displayModeBar": False})
        page.write_text(html.replace("<body>", '<body style="margin:0">'))
        command = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--hide-scrollbars", "--force-device-scale-factor=2", f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}", "--virtual-time-budget=8000", f"--screenshot={output}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    print(output)


def main(name: str, storage: str, output: str) -> None:
    with load_study(name, storage) as study:
        figure = plot_learning_rate(study).update_layout(width=WIDTH, height=HEIGHT)
    screenshot(figure, output, WIDTH, HEIGHT)


if __name__ == "__main__":
    main(*sys.argv[1:4])
