"""Figure of a Pareto front: the objectives against each other, with the front as a line."""

from __future__ import annotations

import textwrap
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.figures.theme import (
    ACCENT,
    PALETTE,
    QUIET,
    annotate_empty,
    error_bars,
    new_figure,
    plain,
    rounded,
    value_title,
)
from studies.judging.pareto_front import FrontTrial, ParetoFront, pareto_front
from studies.judging.ranking import Ranked
from studies.spec.objectives import directions_of
from studies.study.study import OpenStudy, check_open
from studies.words import params_text, spread_text

AXIS_WIDTH = 32
"""Characters of a line of an axis title, which is turned by 90 degrees on the left."""


def plot_pareto_front(study: OpenStudy) -> go.Figure:
    """Plot two objectives of each complete trial against each other; of three objectives, each pair beside the others.

    Bars are 95% intervals of the expected value over seeds. The line is the front.

    Raises:
        StudyError: If the study has one metric.
    """
    check_open(study)
    data, n_seeds = pareto_front(study), len(study.spec.seeds)
    pairs = [(0, 1)] if len(data.metrics) == 2 else [(0, 1), (0, 2), (1, 2)]
    titles = [
        value_title("<br>".join(textwrap.wrap(text, AXIS_WIDTH)), n_seeds, minimize=direction == "minimize")
        for text, direction in zip(data.texts, directions_of(study.spec), strict=True)
    ]
    figure = new_figure("Pareto front", titles[pairs[0][0]], titles[pairs[0][1]])
    if not data.trials:
        return annotate_empty(figure, "No trial is complete yet.")
    if len(pairs) > 1:
        layout = figure.layout
        figure = make_subplots(rows=1, cols=len(pairs), figure=go.Figure(), horizontal_spacing=0.09)
        figure.update_layout(template=layout.template, title=layout.title, height=440, hovermode="closest")
    for column, (x, y) in enumerate(pairs, start=1):
        place = {"row": 1, "col": column} if len(pairs) > 1 else {}
        if len(data.metrics) == 2 and len(data.front) > 1:
            _add_line(figure, data)
        _add_trials(figure, data, [each for each in data.trials if not each.on_front], (x, y), place)
        _add_trials(figure, data, list(data.front), (x, y), place, front=True)
        if place:
            figure.update_xaxes(title_text=titles[x], **place)
            figure.update_yaxes(title_text=titles[y], **place)
    return figure


def _add_line(figure: go.Figure, data: ParetoFront) -> None:
    ordered = sorted((each.values[0].value, each.values[1].value) for each in data.front)
    figure.add_scatter(
        x=rounded([x for x, _ in ordered]), y=rounded([y for _, y in ordered]), mode="lines", name="front",
        line={"color": ACCENT, "width": 2, "dash": "dot"}, hoverinfo="skip",
    )  # fmt: skip


def _add_trials(
    figure: go.Figure,
    data: ParetoFront,
    trials: list[FrontTrial],
    pair: tuple[int, int],
    place: dict[str, int],
    *,
    front: bool = False,
) -> None:
    if not trials:
        return
    xs, ys = ([each.values[axis] for each in trials] for axis in pair)
    figure.add_scatter(
        x=rounded([each.value for each in xs]),
        y=rounded([each.value for each in ys]),
        error_x=_bars(xs),
        error_y=_bars(ys),
        mode="markers+text" if front else "markers",
        texttemplate=[f"#{each.number}" for each in trials],
        textposition="top right",
        name="on the front" if front else "other trials",
        showlegend=place.get("col", 1) == 1,
        marker={"color": PALETTE[0] if front else QUIET, "size": 10 if front else 7},
        text=[_hover_text(data, each) for each in trials],
        hovertemplate="%{text}<extra></extra>",
        **place,
    )


def _bars(values: list[Ranked]) -> dict[str, Any]:
    """Return the bars of 95% intervals."""
    means, lows, highs = ([getattr(each, name) for each in values] for name in ("value", "low", "high"))
    return error_bars(means, lows, highs, thickness=1, width=0)


def _hover_text(data: ParetoFront, trial: FrontTrial) -> str:
    own = [
        f"{plain(text)} {spread_text(value.value, value.spread)}"
        for text, value in zip(data.texts, trial.values, strict=True)
    ]
    return "<br>".join([f"<b>#{trial.number}</b> {plain(params_text(dict(trial.params)))}", *own])
