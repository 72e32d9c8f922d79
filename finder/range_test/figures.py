"""Figures of a sweep over learning rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from agents.errors import ConfigurationError
from finder.range_test.curve import changes, smooth
from finder.range_test.suggestion import Suggestion
from studies.figures.range_tests import Band, add_runs, mark_suggestion
from studies.figures.theme import PALETTE, QUIET, annotate_rate, log_axis, new_figure, shade_interval
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


def plot_change(
    rates: Sequence[float], values: Sequence[float], of: str, *, sma: int, y_lim: tuple[float, float] | None = None
) -> go.Figure:
    """Draw the change of a moving average per decade of the learning rate; the arguments are those of `plot_sweep`."""
    change: Sequence[float] = list(changes(rates, smooth(values, sma))) if len(rates) > 1 else []
    return plot_sweep(rates[1:], change[1:], f"{of} change", y_lim=y_lim)


def check_limits(y_lim: Any) -> None:
    """Raise `ConfigurationError` for limits of an axis that are not two finite numbers."""
    is_pair = isinstance(y_lim, Sequence) and not isinstance(y_lim, str) and len(y_lim) == 2
    if not is_pair or not all(isinstance(end, Real) and math.isfinite(end) for end in y_lim):
        raise ConfigurationError(f"y_lim is {y_lim!r}: give the lower and the upper limit, such as (0.0, 500.0).")


def plot_sweep(
    rates: Sequence[float],
    values: Sequence[float],
    of: str,
    *,
    sma: int = 1,
    suggestion: Suggestion | None = None,
    y_lim: tuple[float, float] | None = None,
    band: Band | None = None,
    interval: tuple[float, float] = (math.nan, math.nan),
) -> go.Figure:
    """Draw values over the learning rate on a log axis: the points, and their moving average if `sma` > 1.

    Args:
        rates: Learning rates.
        values: The value at each rate.
        of: The kind of the values: ``"return"``, ``"loss"``, ``"return change"``, ``"loss change"``, ``"normalized"``.
        sma: Points of the moving average. Defaults to 1.
        suggestion: A suggestion to mark, or None.
        y_lim: Limits of the vertical axis.
        band: The runs of which these are the points, which are drawn in place of the moving average; or None.
        interval: The 95% interval of the suggestion; NaN where there is none.
    """
    title = _TITLES[of]
    figure = new_figure(f"{title} while the learning rate grows", "learning rate", title.lower())
    hover = "learning rate %{x:.3g}<br>%{y:.4g}<extra></extra>"
    averaged = sma > 1 or band is not None
    points = {"color": QUIET if averaged else PALETTE[0], "size": 5}
    mode = "markers" if averaged else "lines+markers"
    figure.add_scatter(
        x=list(rates), y=list(values), mode=mode, marker=points, name="at each rate", hovertemplate=hover
    )
    if band is not None:
        add_runs(figure, band, "mean of the runs", PALETTE[0], hover)
    elif sma > 1:
        line = {"color": PALETTE[0], "width": 2.5}
        name = f"mean of {sma}"
        figure.add_scatter(
            x=list(rates), y=list(smooth(values, sma)), mode="lines", line=line, name=name, hovertemplate=hover
        )
    if rates:
        figure.update_xaxes(**log_axis(rates))
    if y_lim is not None:
        check_limits(y_lim)
        figure.update_yaxes(range=list(y_lim))
    if suggestion is not None and suggestion.rate is not None:
        annotate_rate(figure, suggestion.rate, f"suggested: {rate_text(suggestion.rate)}", rates)
        mark_suggestion(figure, suggestion.rate)
        shade_interval(figure, *interval)
    return figure
