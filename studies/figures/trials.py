"""Trials of a study: values in the order of the search, and failures with their reasons."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import plotly.graph_objects as go
from optuna.trial import TrialState

from studies.figures.theme import (
    ACCENT,
    PALETTE,
    QUIET,
    add_failed,
    annotate_empty,
    annotate_only_failed,
    new_figure,
    plain,
    rounded,
    value_title,
)
from studies.spec.attributes import failure_kind, is_interrupted, is_paused
from studies.study.study import OpenStudy, check_open
from studies.words import number_text, params_text


class TrialRow(NamedTuple):
    """Trial: number, name of its state, value (NaN if none), parameters; reason, traceback and kind if it failed."""

    number: int
    state: str
    value: float
    params: dict[str, Any]
    reason: str
    traceback: str
    failure: str = ""


class StatesData(NamedTuple):
    """Data of the figure and of the table of failures.

    Attributes:
        metric: `StudySpec.metric_text`.
        trials: Every trial, by number.
        best_so_far: Number of each complete trial, in order, and the best value until then.
    """

    metric: str
    trials: tuple[TrialRow, ...]
    best_so_far: tuple[tuple[int, float], ...]

    def of(self, state: str) -> list[TrialRow]:
        """Return the trials in a state: the name of a state of Optuna, `PAUSED` or `INTERRUPTED`."""
        return [row for row in self.trials if row.state == state]


def states_data(study: OpenStudy) -> StatesData:
    """Return state and value of every trial, and the reasons of failures."""
    check_open(study)
    rows = tuple(
        TrialRow(
            trial.number,
            "PAUSED" if is_paused(trial) else "INTERRUPTED" if is_interrupted(trial) else trial.state.name,
            math.nan if trial.value is None else trial.value,
            study.params(trial),
            str(trial.user_attrs.get("reason", "no reason was recorded")) if trial.state == TrialState.FAIL else "",
            str(trial.user_attrs.get("traceback", "")),
            failure_kind(trial) or "",
        )
        for trial in study.trials()
    )
    better = max if study.direction == "maximize" else min
    best: list[tuple[int, float]] = []
    for row in rows:
        if row.state == "COMPLETE":
            best.append((row.number, better(row.value, best[-1][1]) if best else row.value))
    return StatesData(study.spec.metric_text, rows, tuple(best))


def plot_trials(study: OpenStudy) -> go.Figure:
    """Plot the value of each trial in the order of the search, with the best so far; failed ones are crosses below."""
    data = states_data(study)
    y_title = value_title(data.metric, len(study.spec.seeds), minimize=study.direction == "minimize")
    figure = new_figure("Trials in order", "trial number", y_title)
    valued = [row for row in data.trials if not math.isnan(row.value)]
    failed = data.of("FAIL")
    if not valued and not failed:
        return annotate_empty(figure, "No trial has ended yet.")
    if data.best_so_far:
        best = data.best_so_far
        steps = [each for i, each in enumerate(best) if i in (0, len(best) - 1) or each[1] != best[i - 1][1]]
        numbers, values = zip(*steps, strict=True)
        figure.add_scatter(
            x=list(numbers), y=rounded(values), mode="lines", name="best so far",
            line={"color": ACCENT, "width": 2, "shape": "hv"}, hoverinfo="skip",
        )  # fmt: skip
    for state, name, marker in (
        ("COMPLETE", "complete", {"color": PALETTE[0], "size": 8}),
        (
            "PRUNED",
            "pruned (value when stopped)",
            {"symbol": "circle-open", "color": QUIET, "size": 8, "line": {"width": 1.5}},
        ),
    ):
        rows = [row for row in valued if row.state == state]
        if rows:
            _add_rows(figure, rows, [row.value for row in rows], name, marker)
    add_failed(
        figure, [row.number for row in failed], [_hover_text(row) for row in failed], [row.failure for row in failed]
    )
    if not valued:
        annotate_only_failed(figure)
    last = max(row.number for row in data.trials)
    figure.update_xaxes(range=[-0.5, last + 0.5], tickformat="d", dtick=1 if last <= 12 else None)
    return figure


def _add_rows(figure: go.Figure, rows: list[TrialRow], values: list[float], name: str, marker: dict[str, Any]) -> None:
    figure.add_scatter(
        x=[row.number for row in rows],
        y=rounded(values),
        mode="markers",
        name=name,
        marker=marker,
        text=[_hover_text(row) for row in rows],
        hovertemplate=f"<b>{name}</b><br>%{{text}}<extra></extra>",
    )


def _hover_text(row: TrialRow) -> str:
    what = plain(row.reason[:120]) if row.reason else number_text(row.value)
    return f"#{row.number} {plain(params_text(row.params))}<br>{what}"
