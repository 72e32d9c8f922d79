"""Figures that compare studies: the values of their picks, and their progress over time."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from studies.analysis.comparison import ComparedStudy, Comparison, check_comparison
from studies.figures.theme import (
    LEGEND_BELOW,
    PALETTE,
    annotate_empty,
    error_bars,
    new_figure,
    plain,
    rgba,
    rounded,
    shortened,
)
from studies.words import interval_text


def comparison_figures(compared: Comparison) -> dict[str, go.Figure]:
    """Return the figures of a comparison in reading order, by stable ids."""
    return {"finder-picks": plot_picks(compared), "finder-progress": plot_progress(compared)}


def plot_picks(compared: Comparison) -> go.Figure:
    """Plot the value of the pick of each study as a diamond, its 95% interval as a bar, and its seeds as dots."""
    check_comparison(compared)
    picked = [each for each in compared.studies if each.pick is not None]
    figure = new_figure("Values of the picks", compared.metric, "", height=190 + 46 * max(2, len(picked)))
    if not picked:
        return annotate_empty(figure, "No study has a pick.")
    for row, (study, color) in enumerate(zip(picked, _colors(compared, picked), strict=True)):
        _add_pick(figure, study, row, color)
    figure.update_yaxes(
        tickvals=list(range(len(picked))), ticktext=[f"<b>{plain(shortened(each.name, 36))}</b>" for each in picked],
        range=[len(picked) - 0.5, -0.5], showgrid=False, ticks="", ticklabelstandoff=8,
    )  # fmt: skip
    return figure


def plot_progress(compared: Comparison) -> go.Figure:
    """Plot the best value in the search of each study over the minutes since its start.

    The trials of a population end together, so that their values are known at the same time.
    """
    check_comparison(compared)
    figure = new_figure("Progress of the searches", "minutes", f"best {compared.metric} in the search")
    begun = [each for each in compared.studies if each.progress]
    if not begun:
        return annotate_empty(figure, "No trial is complete yet.")
    for study, color in zip(begun, _colors(compared, begun), strict=True):
        minutes, values = zip(*study.progress, strict=True)
        name = plain(shortened(study.name, 46))
        figure.add_scatter(
            x=[*rounded(minutes), *rounded([max(study.minutes, minutes[-1])])],
            y=[*rounded(values), *rounded(values[-1:])],
            mode="lines+markers",
            name=name,
            line={"color": color, "width": 2, "shape": "hv"},
            marker={"size": 5},
            hovertemplate=f"<b>{name}</b><br>%{{x:.3g}} min: %{{y:.4g}}<extra></extra>",
        )
    figure.update_xaxes(rangemode="tozero")
    figure.update_layout(legend=LEGEND_BELOW, height=420 + 20 * len(begun), margin={"b": 76 + 20 * len(begun)})
    return figure


def _colors(compared: Comparison, shown: list[ComparedStudy]) -> list[str]:
    """Return the colour of each study, the same in both figures."""
    places = {study.name: index for index, study in enumerate(compared.studies)}
    return [PALETTE[places[study.name] % len(PALETTE)] for study in shown]


def _add_pick(figure: go.Figure, study: ComparedStudy, row: int, color: str) -> None:
    pick = study.pick
    assert pick is not None
    seeds = list(pick.seed_values.values())
    interval = interval_text(pick.low, pick.high)
    text = f"<b>{plain(study.name)}</b><br>{plain(study.summary)}<br>{study.value_text} over {study.seeds_text}"
    figure.add_scatter(
        x=rounded(seeds), y=[row] * len(seeds), mode="markers", marker={"color": rgba(color, 0.45), "size": 7},
        hovertemplate=f"<b>{plain(study.name)}</b><br>one seed: %{{x:.4g}}<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.add_scatter(
        x=rounded([pick.value]),
        y=[row],
        mode="markers+text",
        text=[f"<b>{plain(study.value_text)}</b>"],
        textposition="top center",
        textfont={"size": 11, "color": color},
        cliponaxis=False,
        marker={"symbol": "diamond", "size": 11, "color": color, "line": {"color": "#ffffff", "width": 1}},
        error_x=None if math.isnan(pick.low) else error_bars([pick.value], [pick.low], [pick.high], color=color),
        hovertemplate=f"{text}{f'<br>95% interval {interval}' if interval else ''}<extra></extra>",
        showlegend=False,
    )
