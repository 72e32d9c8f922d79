"""Schedules: the numbers of the members of population-based training over environment steps, and who copied whom."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import plotly.graph_objects as go

from studies.figures.ranking import ranking
from studies.figures.theme import ACCENT, QUIET, annotate_empty, log_axis, new_figure, plain, rgba
from studies.population_based.schedule import Schedule, ScheduleEntry
from studies.spec.population_rules import searched_ranges
from studies.study.schedules import divergences_of, schedules_of
from studies.study.study import OpenStudy, check_open
from studies.words import param_text

_PANEL = 190
_GAP = 0.06


class Line(NamedTuple):
    """Course of one number of one member.

    Attributes:
        number: Number of the trial; of the lineage, that of the pick.
        steps: Environment steps from which each value holds, the last one being the end of the line.
        values: The values.
        texts: What happened at each step.
        copies: Positions at which the state of another member was copied.
    """

    number: int
    steps: list[int]
    values: list[float]
    texts: list[str]
    copies: list[int]


class SchedulesData(NamedTuple):
    """Data of the figure.

    Attributes:
        lines: Parameter -> a line of every member, by number.
        lineage: Parameter -> the line of the weights of the pick; empty if there is none.
        is_log: Parameter -> whether it was searched on a logarithmic scale.
    """

    lines: dict[str, list[Line]]
    lineage: dict[str, Line]
    is_log: dict[str, bool]


def schedules_data(study: OpenStudy) -> SchedulesData:
    """Return the data of `plot_schedules`."""
    check_open(study)
    ranges, schedules = searched_ranges(study.spec), schedules_of(study)
    ends = {
        trial.number: int(trial.user_attrs.get("env_steps") or trial.last_step or 0)
        for trial in study.trials()
    }  # fmt: skip
    diverged = divergences_of(study)
    lines = {
        name: [
            _line(number, name, own, ends[number], diverged.get(number, ()))
            for number, own in schedules.items()
            if name in own[0].params
        ]
        for name in ranges
    }
    facts = ranking(study)
    lineage = {}
    if facts.pick is not None and facts.lineages:
        number = facts.pick.number
        lineage = {name: _line(number, name, facts.lineages[number].schedule, ends[number]) for name in ranges}
    return SchedulesData(lines, lineage, {name: space.log for name, space in ranges.items()})


def plot_schedules(study: OpenStudy) -> go.Figure:
    """Plot the numbers of all members over environment steps, a panel for each parameter.

    Thin lines are members, dots are copies of another member, and the thick line is the schedule of the weights of the
    recommended trial, through all members that they were copied from.

    Args:
        study: The study, with population-based training.
    """
    data = schedules_data(study)
    names = [name for name in data.lines if data.lines[name]]
    figure = new_figure("Schedules of the members", "environment steps", "", height=150 + _PANEL * max(1, len(names)))
    if not names:
        return annotate_empty(figure, "No trial has started yet.")
    share = (1.0 - _GAP * (len(names) - 1)) / len(names)
    style = {key: figure.layout.yaxis[key] for key in ("gridcolor", "linecolor", "tickcolor", "showline", "automargin")}
    for index, name in enumerate(names):
        axis = "y" if index == 0 else f"y{index + 1}"
        top = 1.0 - index * (share + _GAP)
        values = [value for line in data.lines[name] for value in line.values]
        scale = log_axis(values) if data.is_log[name] else {}
        domain = [max(0.0, top - share), top]
        figure.update_layout({f"yaxis{axis[1:]}": {**style, **scale, "domain": domain, "title": {"text": plain(name)}}})
        for line in data.lines[name]:
            _add_member(figure, line, axis, shown=index == 0 and line is data.lines[name][0])
        if name in data.lineage:
            _add_lineage(figure, data.lineage[name], axis, shown=index == 0)
    figure.update_xaxes(rangemode="tozero", tickformat="~s", anchor="y" if len(names) == 1 else f"y{len(names)}")
    figure.update_layout(legend={"y": -0.3 / len(names)})
    return figure


def _line(number: int, name: str, schedule: Schedule, end: int, diverged: Collection[int] = ()) -> Line:
    entries = list(schedule)
    steps, values = [each.env_steps for each in entries], [each.params[name] for each in entries]
    texts = [_text(name, each, diverged=each.env_steps in diverged) for each in entries]
    copies = [index for index, each in enumerate(entries) if each.copied_from is not None]
    if end > steps[-1]:
        steps, values, texts = [*steps, end], [*values, values[-1]], [*texts, texts[-1]]
    return Line(number, steps, values, texts, copies)


def _text(name: str, entry: ScheduleEntry, *, diverged: bool) -> str:
    copied = "" if entry.copied_from is None else f", copied from #{entry.copied_from}"
    copied += " after a divergence" if diverged else ""
    return f"{name} {param_text(name, entry.params[name])}{copied}"


def _add_member(figure: go.Figure, line: Line, axis: str, *, shown: bool) -> None:
    sizes = [5 if index in line.copies else 0 for index in range(len(line.steps))]
    figure.add_scatter(
        x=line.steps,
        y=line.values,
        yaxis=axis,
        mode="lines+markers",
        name="members; dots are copies of another one",
        legendgroup="members",
        showlegend=shown,
        line={"color": rgba(QUIET, 0.7), "width": 1, "shape": "hv"},
        marker={"size": sizes, "color": QUIET},
        text=[plain(text) for text in line.texts],
        hovertemplate=f"<b>#{line.number}</b> from %{{x:,}} steps<br>%{{text}}<extra></extra>",
    )


def _add_lineage(figure: go.Figure, line: Line, axis: str, *, shown: bool) -> None:
    figure.add_scatter(
        x=line.steps,
        y=line.values,
        yaxis=axis,
        mode="lines",
        name=f"the weights of the pick, #{line.number}",
        legendgroup="pick",
        showlegend=shown,
        line={"color": ACCENT, "width": 3, "shape": "hv"},
        text=[plain(text) for text in line.texts],
        hovertemplate="<b>the pick</b> from %{x:,} steps<br>%{text}<extra></extra>",
    )
