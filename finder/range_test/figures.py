"""Figures of a sweep over learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from finder.range_test.curve import smooth
from finder.range_test.suggestion import Suggestion
from studies.figures.theme import PALETTE, QUIET, annotate_rate, log_axis, new_figure
from studies.words import rate_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLES = {
    "return": "Return of an episode",
    "loss": "Loss of a gradient step",
    "return change": "Change of the return per decade of the learning rate",
    "loss change": "Change of the loss per decade of the learning rate",
    "normalized": "Return of an episode, in standard deviations from the mean of the last ones",
}


def plot_sweep(
    rates: Sequence[float],
    values: Sequence[float],
    of: str,
    *,
    sma: int = 1,
    suggestion: Suggestion | None = None,
    y_lim: tuple[float, float] | None = None,
) -> go.Figure:
    """Draw values over the learning rate on a log axis: the points, and their moving average if `sma` > 1.

    Args:
        rates: Learning rates.
        values: The value at each rate.
        of: The kind of the values: ``"return"``, ``"loss"``, ``"return change"``, ``"loss change"``, ``"normalized"``.
        sma: Points of the moving average. Defaults to 1.
        suggestion: A suggestion to mark, or None.
        y_lim: Limits of the vertical axis.
    """
    title = _TITLES[of]
    figure = new_figure(f"{title} while the learning rate grows", "learning rate", title.lower())
    hover = "learning rate %{x:.3g}<br>%{y:.4g}<extra></extra>"
    points = {"color": QUIET if sma > 1 else PALETTE[0], "size": 5}
    mode = "markers" if sma > 1 else "lines+markers"
    figure.add_scatter(x=list(rates), y=list(values), mode=mode, marker=points, name="single", hovertemplate=hover)
    if sma > 1:
        line = {"color": PALETTE[0], "width": 2.5}
        name = f"mean of {sma}"
        figure.add_scatter(
            x=list(rates), y=list(smooth(values, sma)), mode="lines", line=line, name=name, hovertemplate=hover
        )
    if rates:
        figure.update_xaxes(**log_axis(rates))
    if y_lim is not None:
        figure.update_yaxes(range=list(y_lim))
    if suggestion is not None and suggestion.rate is not None:
        annotate_rate(figure, suggestion.rate, f"suggested: {rate_text(suggestion.rate)}", rates)
    return figure
