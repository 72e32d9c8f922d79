"""Parallel coordinates: every trial as a line through its parameters to its value.

They are drawn as ordinary lines: Plotly's own parallel coordinates need WebGL, and a page that may compile code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import plotly.graph_objects as go
from optuna.trial import TrialState

from studies.figures.importances import importances_data, searched_params
from studies.figures.ranking import best_and_pick, ranking
from studies.figures.theme import ACCENT, QUIET, annotate_empty, log_axis, new_figure, plain, rgba, shortened
from studies.spaces.spaces import FloatRange, IntRange
from studies.spec.attributes import has_diverged
from studies.words import counted, number_text, param_text, params_text

if TYPE_CHECKING:
    from studies.spaces.spaces import Json, Space
    from studies.study.study import OpenStudy

_NOT_SET = -0.1
"""Position of a line where a conditional parameter is not set."""

_GROUPS = (("best quarter", "#1d4ed8", 2.0), ("second quarter", "#60a5fa", 1.5), ("worse half", "#bfdbfe", 1.2))


class Axis(NamedTuple):
    """Axis of a parameter or the value: its name, and its ticks as (position from 0 to 1, text)."""

    name: str
    ticks: tuple[tuple[float, str], ...]


class TrialLine(NamedTuple):
    """Line of a trial: number, state, position on each axis (NaN if it has none), value, and parameters as text."""

    number: int
    state: str
    places: tuple[float, ...]
    text: str


class ParallelCoordinatesData(NamedTuple):
    """Data of the figure.

    Attributes:
        metric: `StudySpec.metric_text`.
        axes: The parameters, the most important first if importances are known, then the value.
        lines: Complete trials, best first, then pruned and diverged ones, which have no value; the pick comes last
            if it is none of the first.
        pick: Number of the recommended trial, None if there is none.
        n_left_out: Number of parameters that are not shown.
        n_lines_left_out: Number of trials that are not shown.
    """

    metric: str
    axes: tuple[Axis, ...]
    lines: tuple[TrialLine, ...]
    pick: int | None
    n_left_out: int
    n_lines_left_out: int


def parallel_coordinates_data(study: OpenStudy, max_params: int = 6, max_lines: int = 300) -> ParallelCoordinatesData:
    """Return the data of `plot_parallel_coordinates`.

    Args:
        study: The study.
        max_params: Maximum number of parameters; the most important ones. Defaults to `6`.
        max_lines: Maximum number of trials: the best, then pruned ones; the pick is always shown. Defaults to `300`.
    """
    names = searched_params(study)
    if len(names) > max_params:
        names = [each.name for each in importances_data(study).importances] or names
    shown = names[:max_params]
    spaces = study.spec.search_space()
    facts = ranking(study)
    complete = [facts.trials[entry.number] for entry in facts.ranked]
    others = [trial for trial in facts.trials.values() if trial.state == TrialState.PRUNED or has_diverged(trial)]
    params = {trial.number: study.params(trial) for trial in (*complete, *others)}
    values = {entry.number: entry.value for entry in facts.ranked if math.isfinite(entry.value)}
    value_axis, low, high = _value_axis(study.spec.metric_text, list(values.values()))
    scales = []
    for name in shown:
        tried = [own[name] for own in params.values() if name in own]
        scales.append(_Scale(name, spaces[name], tried, is_conditional=len(tried) < len(params)))
    pick = None if facts.pick is None else facts.pick.number
    lines = []
    for _, trial in best_and_pick([*complete, *others], max_lines, lambda trial: trial.number == pick):
        own = params[trial.number]
        places = [scale.place(own) for scale in scales]
        value = values.get(trial.number, math.nan)
        places.append((value - low) / (high - low))
        state = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}.get(trial.state, "diverged")
        worth = f": {number_text(value)}" if math.isfinite(value) else f": {state}"
        settings = plain(params_text(own)).replace(", ", "<br>")
        lines.append(TrialLine(trial.number, state, tuple(places), f"#{trial.number}{worth}<br>{settings}"))
    axes = (*(scale.axis for scale in scales), value_axis)
    n_left_out = len(searched_params(study)) - len(shown)
    return ParallelCoordinatesData(
        study.spec.metric_text, axes, tuple(lines), pick, n_left_out, len(params) - len(lines)
    )


def plot_parallel_coordinates(study: OpenStudy, max_params: int = 6, max_lines: int = 300) -> go.Figure:
    """Plot trials as lines through their parameters; the recommended trial in front, better ones darker.

    Args:
        study: The study.
        max_params: Maximum number of parameters; the most important ones. Defaults to `6`.
        max_lines: Maximum number of trials: the best, then pruned ones; the pick is always shown. Defaults to `300`.
    """
    data = parallel_coordinates_data(study, max_params, max_lines)
    title = "Trials by their parameters"
    left_out = [(data.n_left_out, "more parameter"), (data.n_lines_left_out, "more trial")]
    if any(n for n, _ in left_out):
        title += f" ({' and '.join(counted(n, what) for n, what in left_out if n)} not shown)"
    figure = new_figure(title, "", "", height=470)
    if not data.lines:
        return annotate_empty(figure, "No trial has ended yet.")
    complete = [line for line in data.lines if line.state == "complete"]
    stopped = [line for line in data.lines if line.state != "complete"]
    _add_lines(figure, stopped, "pruned or diverged", rgba(QUIET, 0.35), 1.0)
    quarter = math.ceil(len(complete) / 4)
    parts = (complete[:quarter], complete[quarter : 2 * quarter], complete[2 * quarter :])
    for part, (name, color, width) in reversed(list(zip(parts, _GROUPS, strict=True))):
        _add_lines(figure, [line for line in part if line.number != data.pick], name, color, width)
    _add_lines(figure, [line for line in complete if line.number == data.pick], "the pick", ACCENT, 3.0)
    for place, axis in enumerate(data.axes):
        last = place == len(data.axes) - 1
        name = "<br>".join(plain(shortened(part, 14)) for part in _parts(axis.name))
        figure.add_annotation(
            x=place, y=0, yref="paper", yanchor="top", text=name, showarrow=False, font={"size": 11},
            xanchor="left" if place == 0 else "right" if last else "center",
        )  # fmt: skip
        figure.add_shape(
            type="line", x0=place, x1=place, y0=0, y1=1, line={"color": QUIET, "width": 1.5}, layer="below"
        )
        for at, text in axis.ticks:
            figure.add_annotation(
                x=place, y=at, text=plain(shortened(text, 12)), showarrow=False, font={"size": 11},
                xanchor="right" if last else "left", xshift=-4 if last else 4, bgcolor="rgba(148,163,184,0.18)",
                borderpad=1,
            )  # fmt: skip
    figure.update_xaxes(visible=False, range=[-0.15, len(data.axes) - 0.85])
    figure.update_yaxes(visible=False, range=[_NOT_SET - 0.05, 1.05])
    figure.update_layout(
        margin={"l": 24, "r": 24, "b": 110}, legend={"y": 0.01, "yref": "container", "yanchor": "bottom"}
    )
    return figure


class _Scale:
    """Positions of the values of a parameter, from 0 at the bottom of its axis to 1 at the top."""

    def __init__(self, name: str, space: Space, values: Sequence[Json], *, is_conditional: bool) -> None:
        self._name = name
        self._choices: list[str] = []
        self._log = False
        self._low, self._high = 0.0, 1.0
        if isinstance(space, FloatRange | IntRange) and values:
            self._log = space.log and min(values) > 0
            numbers = [self._number(value) for value in values]
            self._low, self._high = min(numbers), max(numbers)
            ticks = self._log_ticks(values) if self._log else self._linear_ticks()
        else:
            given = [_words(value) for value in getattr(space, "values", values)]
            self._choices = list(dict.fromkeys(given))
            ticks = [(self._of_choice(text), text) for text in self._choices]
        if is_conditional:
            ticks = [(_NOT_SET, "not set"), *ticks]
        self.axis = Axis(name, tuple(ticks))

    def place(self, params: Mapping[str, Json]) -> float:
        if self._name not in params:
            return _NOT_SET
        value = params[self._name]
        if self._choices:
            return self._of_choice(_words(value))
        return self._of_number(self._number(value))

    def _number(self, value: float) -> float:
        return math.log10(value) if self._log else float(value)

    def _of_number(self, number: float) -> float:
        return (number - self._low) / (self._high - self._low) if self._high > self._low else 0.5

    def _of_choice(self, text: str) -> float:
        n = len(self._choices)
        return self._choices.index(text) / (n - 1) if n > 1 else 0.5

    def _log_ticks(self, values: Sequence[float]) -> list[tuple[float, str]]:
        axis = log_axis(values)
        inside = [
            (self._of_number(math.log10(value)), text)
            for value, text in zip(axis["tickvals"], axis["ticktext"], strict=True)
            if self._low <= math.log10(value) <= self._high
        ]
        ends = [(self._of_number(end), param_text("learning_rate", 10**end)) for end in (self._low, self._high)]
        return inside if len(inside) >= 2 else ends

    def _linear_ticks(self) -> list[tuple[float, str]]:
        if self._high == self._low:
            return [(0.5, param_text(self._name, self._low))]
        parts = 4
        numbers = [self._low + part * (self._high - self._low) / parts for part in range(parts + 1)]
        # As many digits as tell neighbouring ticks apart.
        digits = 3 + max(0, math.ceil(math.log10(max(map(abs, numbers)) / (self._high - self._low)) - 1))
        return [(part / parts, number_text(float(f"{number:.{digits}g}"))) for part, number in enumerate(numbers)]


def _value_axis(metric: str, values: Sequence[float]) -> tuple[Axis, float, float]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    numbers = [low + part * (high - low) / 4 for part in range(5)]
    ticks = tuple((part / 4, number_text(float(f"{number:.3g}"))) for part, number in enumerate(numbers))
    return Axis(f"{metric} in the search", ticks), low, high


def _words(value: Json) -> str:
    return str(value)


def _parts(name: str) -> list[str]:
    """Return a name, in two lines if it is long."""
    if len(name) <= 12 or not any(mark in name for mark in " _."):
        return [name]
    middle = min((i for i, letter in enumerate(name) if letter in " _."), key=lambda i: abs(i - len(name) / 2))
    return [name[: middle + 1].rstrip(), name[middle + 1 :]]


def _add_lines(figure: go.Figure, lines: Sequence[TrialLine], name: str, color: str, width: float) -> None:
    """Add lines as one trace, with gaps between them."""
    if not lines:
        return
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str] = []
    for line in lines:
        for place, at in enumerate(line.places):
            x.append(place)
            y.append(None if math.isnan(at) else round(at, 4))
            text.append(line.text)
        x.append(None)
        y.append(None)
        text.append("")
    figure.add_scatter(
        x=x, y=y, text=text, mode="lines+markers", name=name, line={"color": color, "width": width},
        marker={"size": 4 if width < 3 else 7, "color": color}, hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
