"""How our figures look: colours, axes and number formats, the same in every figure."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from studies.words import rate_text

PALETTE = (
    "#3b82f6",  # blue
    "#ea580c",  # orange
    "#059669",  # green
    "#9333ea",  # purple
    "#0891b2",  # cyan
    "#ca8a04",  # ochre
    "#db2777",  # pink
    "#64748b",  # slate
)
"""Line colours; they hold on white and on near-black."""

ACCENT = "#e11d48"
"""The pick, and nothing else."""

QUIET = "#94a3b8"
"""What is there for comparison only."""

_FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_INK = "#1e293b"
_GRID = "#e2e8f0"
_LINE = "#94a3b8"


def new_figure(title: str, x_title: str, y_title: str, height: int = 440) -> go.Figure:
    """Returns an empty figure with our layout; titles are shown as plain text."""
    axis: dict[str, Any] = {
        "gridcolor": _GRID,
        "linecolor": _LINE,
        "tickcolor": _LINE,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 5,
        "automargin": True,
    }
    figure = go.Figure()
    figure.update_layout(
        template="none",
        title={
            "text": f"<b>{plain(title)}</b>",
            "font": {"size": 16},
            "x": 0.02,
            "xref": "container",
            "y": 0.97,
            "yanchor": "top",
        },
        font={"family": _FONT, "size": 13, "color": _INK},
        paper_bgcolor="#ffffff",
        plot_bgcolor="rgba(0,0,0,0)",
        height=height,
        margin={"l": 60, "r": 24, "t": 56, "b": 56},
        hovermode="closest",
        hoverlabel={"align": "left", "font": {"size": 12}},
        legend={"orientation": "h", "yanchor": "top", "y": -0.2, "xanchor": "left", "x": 0.02, "font": {"size": 12}},
        xaxis={**axis, "title": {"text": plain(x_title), "standoff": 10}},
        yaxis={**axis, "title": {"text": plain(y_title), "standoff": 10}},
    )
    return figure


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """Returns a logarithmic axis over positive values with ticks such as 1e-5, 1e-4; 2 and 5 too if it is short."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.08, 0.04 * (high - low))
    low, high = low - margin, high + margin
    multiples = (1, 2, 5) if high - low < 1.7 else (1,)
    ticks = [
        multiple * 10.0**decade
        for decade in range(math.floor(low), math.ceil(high) + 1)
        for multiple in multiples
        if low <= math.log10(multiple * 10.0**decade) <= high
    ]
    return {
        "type": "log",
        "range": [low, high],
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [rate_text(tick) for tick in ticks],
        "minor": {"dtick": "D1", "ticks": "outside", "ticklen": 3, "tickcolor": _LINE},
    }


def plain(text: object) -> str:
    """Returns text that Plotly shows as it is, although it reads a few HTML tags."""
    return html.escape(str(text), quote=False)


def rounded(values: Sequence[float]) -> list[float | None]:
    """Returns values with six digits, as a plain list: half the size, and older Plotly versions read it too."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]


def faded(color: str, alpha: float) -> str:
    """Returns `#rrggbb` as an rgba colour."""
    red, green, blue = (int(color[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def say_empty(figure: go.Figure, text: str) -> go.Figure:
    """Writes in the middle of an empty figure why it is empty."""
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(
        text=plain(text), x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"size": 14}
    )
    return figure


def explain_band(figure: go.Figure, what: str = "band") -> None:
    """Says in the legend what the band (or the bar) around a line is."""
    line = {"color": faded(QUIET, 0.45), "width": 10 if what == "band" else 2}
    figure.add_scatter(x=[None], y=[None], mode="lines", name=f"{what}: worst to best seed", line=line)


def add_failed(figure: go.Figure, x: Sequence[float], text: Sequence[str]) -> None:
    """Draws failed trials as a row of crosses below the area of the values, because they have none."""
    if not x:
        return
    below = {
        "domain": [0.0, 0.07], "range": [-1, 1], "tickvals": [0], "ticktext": ["failed"], "ticks": "",
        "showgrid": False, "zeroline": False, "showline": False, "fixedrange": True, "automargin": True,
    }  # fmt: skip
    figure.update_layout(yaxis={"domain": [0.11, 1.0]}, yaxis2=below, xaxis={"anchor": "y2"})
    figure.add_scatter(
        x=list(x),
        y=[0] * len(x),
        yaxis="y2",
        mode="markers",
        name="failed",
        showlegend=False,
        marker={"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": QUIET}},
        text=list(text),
        hovertemplate="<b>failed</b><br>%{text}<extra></extra>",
    )


def say_only_failed(figure: go.Figure) -> None:
    """Writes in the area of the values why it is empty: failed trials are all that there is."""
    figure.update_layout(yaxis={"showticklabels": False, "showgrid": False, "ticks": ""})
    figure.add_annotation(
        text="Every trial that has ended failed.", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False,
        font={"size": 14},
    )  # fmt: skip


def annotate_rate(figure: go.Figure, rate: float, text: str) -> None:
    """Writes above the plot at a rate. Annotations on a logarithmic axis take the exponent, unlike every trace."""
    figure.add_annotation(
        x=math.log10(rate), xref="x", y=1.0, yref="paper", yanchor="bottom", showarrow=False,
        text=f"<b>{plain(text)}</b>", font={"color": ACCENT, "size": 12},
    )  # fmt: skip


def value_title(metric: str) -> str:
    """Returns what a trial's value is, for an axis."""
    return f"mean {metric} over the last part of training"


def colors(labels: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each label, the same for the same labels whatever their order."""
    return {label: PALETTE[index % len(PALETTE)] for index, label in enumerate(sorted(set(labels)))}


def thin(figure: go.Figure, most: int) -> None:
    """Leaves so many points of each longer line or cloud, evenly in their order, and says so in the title.

    Args:
        figure: A figure of `new_figure`; it is changed.
        most: Points, >= 2.
    """
    longest = 0
    for trace in figure.data:
        n = len(trace.x) if trace.type == "scatter" and trace.x is not None else 0
        if n <= most:
            continue
        longest = max(longest, n)
        kept = sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})
        own = [(trace, name) for name in ("x", "y", "text")]
        bars = [(trace.error_y, name) for name in ("array", "arrayminus")]
        for holder, name in own + bars:
            values = holder[name]
            if values is not None and not isinstance(values, str) and len(values) == n:
                holder[name] = [values[i] for i in kept]
    if longest:
        figure.layout.title.text += f" ({most:,} of {longest:,} shown)"
