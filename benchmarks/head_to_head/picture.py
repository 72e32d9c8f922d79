"""The picture of `benchmarks/head_to_head/compare.py`: returns against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.head_to_head.cells import CELLS, DEFAULTS, NAMES, Row
from benchmarks.head_to_head.sides import Side, curve, sides_of, times_of

COLORS = {
    "finder": "#2563eb", "finder-none": "#059669", "zoo": "#dc2626", "ray-asha": "#d97706", "ray-asha-none": "#fcd34d",
    "ray-pbt": "#7c3aed", "ray-pbt-none": "#c4b5fd",
    "sb3-defaults": "#6b7280", "finder-defaults": "#93c5fd", "zoo-tuned": "#fca5a5",
}  # fmt: skip


def picture(rows: Sequence[Row], path: Path) -> None:
    """Draw returns against the time of search and long run in Stable-Baselines3, a row a cell, a column for minutes."""
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    cells = [cell for cell in CELLS if any(row["cell"] == cell and row["minutes"] for row in rows)]
    columns = sorted({row["minutes"] for row in rows if row["minutes"]})
    if not cells:
        print("There is no search to draw.")
        return
    searched = {(row["cell"], row["minutes"]) for row in rows if row["kind"] == "run"}
    titles = [
        f"{cell}, {minutes:g} minutes of search" if (cell, minutes) in searched else f"{cell}: no search of {minutes:g}"
        for cell in cells
        for minutes in columns
    ]
    figure = make_subplots(len(cells), len(columns), subplot_titles=titles, vertical_spacing=0.3 / len(cells))
    named: set[str] = set()
    for i, cell in enumerate(cells, 1):
        for j, minutes in enumerate(columns, 1):
            sides = {name: own for name, own in sides_of(rows, cell, minutes, "sb3").items() if _has_points(own)}
            if not sides or (cell, minutes) not in searched:
                continue
            values = [value for own in sides.values() for run in own.runs for value in run.points[:, 1]]
            times = times_of(list(sides.values()))
            for side, own in sides.items():
                first = min(run.search_seconds + run.points[0, 3] for run in own.runs if len(run.points))
                shown = times >= first
                figure.add_scatter(
                    x=times[shown] / 60, y=curve(own, times, min(values))[shown], name=NAMES[side], legendgroup=side,
                    showlegend=side not in named, mode="lines",
                    line={"color": COLORS[side], "shape": "hv", "dash": "dot" if side in DEFAULTS else "solid"},
                    row=i, col=j,
                )  # fmt: skip
                named.add(side)
            figure.add_hline(y=CELLS[cell].threshold, line={"dash": "dash", "color": "#d1d5db"}, row=i, col=j)
            figure.update_xaxes(title_text="minutes" if i == len(cells) else None, row=i, col=j)
    height = 140 + 230 * len(cells)
    figure.update_layout(
        width=600 * len(columns) + 100, height=height, template="plotly_white",
        margin={"t": 130, "l": 50, "r": 20, "b": 50},
        legend={"orientation": "h", "yref": "container", "y": 0.99, "yanchor": "top"},
    )  # fmt: skip
    screenshot(figure, path, 600 * len(columns) + 100, height)


def _has_points(side: Side) -> bool:
    return any(len(run.points) for run in side.runs)
