"""Theme of all figures: colours, axes and number formats."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from studies.words import failure_word, over_seeds_text, rate_text

if TYPE_CHECKING:
    from studies.judging.judgement import Verdict
    from studies.spec.spec import StudySpec

PALETTE = (
    "#3b82f6",  # blue
    "#ea580c",  # orange
    "#4d7c0f",  # olive
    "#9333ea",  # purple
    "#0891b2",  # cyan
    "#ca8a04",  # ochre
    "#db2777",  # pink
    "#64748b",  # slate
)
"""Colours of lines; they are visible on white and on near-black."""

ACCENT = "#e11d48"
"""Colour of the recommended trial, and of nothing else."""

QUIET = "#94a3b8"
"""Colour of what is shown for comparison only."""

LEGEND_BELOW = {"orientation": "v", "y": 0.01, "yref": "container", "yanchor": "bottom"}
"""Legend below the plot, one entry in each line: long labels side by side would be cut off on a phone."""

_FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_INK = "#1e293b"
_GRID = "#e2e8f0"
_LINE = "#94a3b8"


def new_figure(title: str, x_title: str, y_title: str, height: int = 440) -> go.Figure:
    """Return an empty figure with the common layout; titles are shown as plain text."""
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
        legend={"orientation": "h", "yanchor": "top", "y": -0.24, "xanchor": "left", "x": 0.0, "font": {"size": 12}},
        xaxis={**axis, "title": {"text": _lines(x_title), "standoff": 10}},
        yaxis={**axis, "title": {"text": _lines(y_title), "standoff": 10}},
    )
    return figure


def _lines(title: str) -> str:
    return "<br>".join(plain(line) for line in title.split("<br>"))


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis over positive values, of half a decade or more, with at least two ticks.

    Ticks are 1e-5, 1e-4 and so on; also 2 and 5 if the axis is short, and more if it is very short.
    """
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.08, 0.04 * (high - low), (0.5 - (high - low)) / 2)
    low, high = low - margin, high + margin
    multiples: tuple[float, ...] = (1, 1.5, 2, 3, 4, 5, 6, 8) if high - low < 0.75 else (1, 2, 5)
    if high - low >= 2.0:
        multiples = (1,)
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
    """Return text in which Plotly does not interpret HTML tags."""
    return html.escape(str(text), quote=False)


def rounded(values: Sequence[float]) -> list[float | None]:
    """Return values with six digits, as a plain list: half the size, and readable by older versions of Plotly."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]


def rgba(color: str, alpha: float) -> str:
    """Return `#rrggbb` as an rgba colour."""
    red, green, blue = (int(color[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def legend_below(figure: go.Figure, height: int) -> None:
    """Place the legend below a plot of this height, one entry per line, so that it fits on a phone."""
    n_entries = sum(trace.showlegend is not False for trace in figure.data)
    figure.update_layout(legend=LEGEND_BELOW, height=height + 20 * n_entries, margin={"b": 76 + 20 * n_entries})


def annotate_empty(figure: go.Figure, text: str) -> go.Figure:
    """Write the reason why a figure is empty into its middle."""
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    lines = "<br>".join(map(plain, textwrap.wrap(text, 42)))
    figure.add_annotation(text=lines, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"size": 14})
    return figure


def explain_band(figure: go.Figure, what: str = "band") -> None:
    """Explain the band (or the bar) around a line in the legend."""
    line = {"color": rgba(QUIET, 0.45), "width": 10 if what == "band" else 2}
    figure.add_scatter(x=[None], y=[None], mode="lines", name=f"{what}: worst to best seed", line=line)


def add_failed(figure: go.Figure, x: Sequence[float], text: Sequence[str], kinds: Sequence[str]) -> None:
    """Draw failed trials as a row below the area of the values, because they have none.

    Divergences are crosses; other failures, which say nothing about the parameters, are open circles.

    Args:
        figure: Figure to add to.
        x: Positions.
        text: Text of each.
        kinds: Kind of each failure (`studies.spec.attributes.FailureKind`).
    """
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
        marker={
            "symbol": ["x-thin" if kind == "diverged" else "circle-open" for kind in kinds],
            "size": 9,
            "color": QUIET,
            "line": {"width": 2, "color": QUIET},
        },
        text=list(text),
        customdata=[failure_word(kind) for kind in kinds],
        hovertemplate="<b>%{customdata}</b><br>%{text}<extra></extra>",
    )


CONFIRMED_MARKER = {"symbol": "diamond-open", "size": 9, "color": "#059669", "line": {"width": 2}}
"""Marker of the values of confirmed finalists."""


def confirmed_text(spec: StudySpec, found: Verdict) -> str:
    """Return the legend of the values of confirmed finalists, with the environment steps of longer or shorter runs.

    One further seed has no interval.
    """
    steps = f", {found.confirm_env_steps:,} steps" if found.confirms_apart else ""
    return f"further seed{steps}" if spec.confirm_seeds == 1 else f"further seeds{steps}, 95% interval"


def error_bars(values: Sequence[float], lows: Sequence[float], highs: Sequence[float], **style: Any) -> dict[str, Any]:
    """Return bars from the lows to the highs around values, of no length where an end is NaN.

    Args:
        values: [n].
        lows: Lower ends, [n].
        highs: Upper ends, [n].
        **style: Properties of Plotly's error bars, such as `color` and `thickness`.
    """
    above = [0.0 if math.isnan(high) else high - value for value, high in zip(values, highs, strict=True)]
    below = [0.0 if math.isnan(low) else value - low for value, low in zip(values, lows, strict=True)]
    return {"type": "data", "symmetric": False, "array": rounded(above), "arrayminus": rounded(below), **style}


def add_band(
    figure: go.Figure, x: Sequence[float], lows: Sequence[float], highs: Sequence[float], *, group: str, color: str
) -> None:
    """Fill the area between lows and highs, as a part of a group of the legend without an entry of its own."""
    band = {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": group, "mode": "lines"}
    figure.add_scatter(x=x, y=rounded(highs), **band)
    figure.add_scatter(x=x, y=rounded(lows), fill="tonexty", fillcolor=color, **band)


def shade_interval(figure: go.Figure, low: float, high: float) -> None:
    """Shade the 95% interval of a rate, if its ends are known."""
    if math.isfinite(low) and math.isfinite(high):
        figure.add_vrect(x0=low, x1=high, fillcolor=ACCENT, opacity=0.07, line_width=0, layer="below")


def annotate_only_failed(figure: go.Figure) -> None:
    """Write into the area of the values that all trials have failed."""
    figure.update_layout(yaxis={"showticklabels": False, "showgrid": False, "ticks": ""})
    figure.add_annotation(
        text="Every trial that has ended failed.", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False,
        font={"size": 14},
    )  # fmt: skip


def annotate_rate(figure: go.Figure, rate: float, text: str, rates: Sequence[float]) -> None:
    """Write above the plot at a rate; near an end of the axis (`log_axis(rates)`) the text is placed inwards.

    Annotations on a logarithmic axis take the exponent, unlike every trace.
    """
    low, high = log_axis(rates)["range"]
    place = (math.log10(rate) - low) / (high - low)
    figure.add_annotation(
        x=math.log10(rate), xref="x", y=1.0, yref="paper", yanchor="bottom", showarrow=False,
        xanchor="left" if place < 0.35 else "right" if place > 0.65 else "center",
        text=f"<b>{plain(shortened(text, 40))}</b>", font={"color": ACCENT, "size": 12},
    )  # fmt: skip


def shortened(text: str, limit: int) -> str:
    """Return text of this many characters at most; longer text ends in an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def value_title(metric: str, n_seeds: int, *, minimize: bool = False) -> str:
    """Return the title of an axis of values: metric, its direction if lower is better, and the number of seeds."""
    return f"{metric} in the search{', lower is better' if minimize else ''}<br>{over_seeds_text(n_seeds)}"


_DASHES = ("solid", "dash", "dot", "dashdot")


def line_of(index: int) -> dict[str, Any]:
    """Return the style of the line of a position: a colour, and after the last colour another dash."""
    dash = _DASHES[index // len(PALETTE) % len(_DASHES)]
    return {"color": PALETTE[index % len(PALETTE)], "width": 2, "dash": dash}


def colors(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour for each label, the same for the same labels whatever their order."""
    return {label: PALETTE[index % len(PALETTE)] for index, label in enumerate(sorted(set(labels)))}


def thin(figure: go.Figure, most: int) -> None:
    """Thin out longer lines and clouds to this many points, evenly in their order, and note it in the title.

    Every list with a value for each point is thinned out, so that bars, marks and texts stay those of their points.

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
        _keep_points(trace, n, sorted({round(i * (n - 1) / (most - 1)) for i in range(most)}))
    if longest:
        figure.layout.title.text += f" ({most:,} of {longest:,} shown)"


def _keep_points(part: Any, n: int, kept: Sequence[int]) -> None:
    """Keep the values of some of the `n` points in a trace, or a part of one such as its markers."""
    for name, value in part.to_plotly_json().items():
        if isinstance(value, dict):
            _keep_points(part[name], n, kept)
        elif not isinstance(value, str) and hasattr(value, "__len__") and len(value) == n:
            part[name] = [value[i] for i in kept]
