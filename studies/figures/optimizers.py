"""Ranking of optimizers or agents, each at its best tried settings, or of trials, with every seed shown."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import plotly.graph_objects as go

from studies.figures.ranking import best_and_pick, group_label, ranking
from studies.figures.theme import (
    ACCENT,
    CONFIRMED_MARKER,
    LEGEND_BELOW,
    PALETTE,
    annotate_empty,
    confirmed_text,
    error_bars,
    new_figure,
    plain,
    rgba,
    rounded,
    shortened,
    value_title,
)
from studies.judging.confirmation import Verdict, verdict
from studies.judging.ranking import Ranked
from studies.study.study import OpenStudy, check_open
from studies.words import interval_text, over_seeds_text, param_text, params_text, spread_text

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec


_LABEL_LINES = 3
"""Largest number of lines of a label."""


class RankingRow(NamedTuple):
    """Row of the figure.

    Attributes:
        label: Optimizer or agent, or number of the trial.
        settings: Parameters as text.
        best: Trial of the row on the seeds of the search.
        further: The same on further seeds, None without confirmation.
        n_trials: Number of complete trials with this label.
        is_pick: Whether it is the recommended trial.
        place: Place in the ranking, from 1.
    """

    label: str
    settings: str
    best: Ranked
    further: Ranked | None
    n_trials: int
    is_pick: bool
    place: int


class OptimizersData(NamedTuple):
    """Data of the figure.

    Attributes:
        metric: `StudySpec.metric_text`.
        grouped: Whether a row is an optimizer or agent rather than one trial.
        tuned: Whether the settings of the rows were chosen among several trials each.
        rows: Best first; the row of the pick comes last if it is not among the best.
    """

    metric: str
    grouped: bool
    tuned: bool
    rows: tuple[RankingRow, ...]


def optimizers_data(study: OpenStudy, max_rows: int = 12) -> OptimizersData:
    """Return the data of `plot_optimizers`.

    Args:
        study: The study.
        max_rows: Maximum number of rows, without that of the pick if it is not among the best. Defaults to `12`.
    """
    check_open(study)
    facts = ranking(study)
    ranked = facts.ranked
    further = {each.number: each.held_out for each in facts.verdict.confirmed}
    labels = [group_label(dict(entry.params)) for entry in ranked]
    if len(set(labels)) < 2:
        rows = [
            RankingRow(
                f"#{entry.number}",
                params_text(dict(entry.params)),
                entry,
                further.get(entry.number),
                1,
                entry is facts.pick,
                place,
            )
            for place, entry in best_and_pick(ranked, max_rows, lambda entry: entry is facts.pick)
        ]
        return OptimizersData(study.spec.metric_text, False, False, tuple(rows))
    best: dict[str, Ranked] = {}
    for label, entry in zip(labels, ranked, strict=True):
        if entry is facts.pick:  # within its group it may be the most robust one rather than the best
            best[label] = entry
        best.setdefault(label, entry)
    rows = [
        RankingRow(
            label or "default",
            _own_settings(dict(entry.params)),
            entry,
            further.get(entry.number),
            labels.count(label),
            entry is facts.pick,
            place,
        )
        for place, (label, entry) in best_and_pick(list(best.items()), max_rows, lambda each: each[1] is facts.pick)
    ]
    return OptimizersData(study.spec.metric_text, True, len(best) < len(labels), tuple(rows))


def plot_optimizers(study: OpenStudy, max_rows: int = 12, max_lines: int = 3) -> go.Figure:
    """Plot the ranking of the search: values as diamonds, their 95% intervals as bars, seeds as dots.

    Open diamonds below are values on further seeds. If optimizers or agents were searched with several settings each,
    each is judged at its own best ones. Bars surround the value and do not start at 0, because returns are often
    negative, where the best bar would be the shortest.

    Args:
        study: The study.
        max_rows: Maximum number of rows, without that of the pick if it is not among the best. Defaults to `12`.
        max_lines: Maximum number of lines for the settings of a row. Defaults to `3`.
    """
    data = optimizers_data(study, max_rows)
    title = "Ranking of the best trials"
    if data.grouped:
        title = "Ranking, each at its own best settings" if data.tuned else "Ranking"
    wrapped = [_wrapped(row.settings, max_lines) for row in data.rows]
    labels = [_wrapped(row.label, _LABEL_LINES, 24) for row in data.rows]
    lines = [f"{label}<br>{text}".count("<br>") for label, text in zip(labels, wrapped, strict=True)]
    row_height = 32 + 14 * max(lines, default=1)
    height = 180 + row_height * max(3, len(data.rows))
    x_title = value_title(data.metric, len(study.spec.seeds), minimize=study.direction == "minimize")
    figure = new_figure(title, x_title, "", height=height)
    if not data.rows:
        return annotate_empty(figure, "No trial is complete yet.")
    names = [
        f"<b>{label}</b>{_place_text(row, y)}<br>{text}"
        for y, (row, label, text) in enumerate(zip(data.rows, labels, wrapped, strict=True))
    ]
    low, high = _padded_range(data.rows)
    for y, row in enumerate(data.rows):
        share = (row.best.value - low) / (high - low)
        side = "left" if share > 0.8 else "right" if share < 0.2 else "center"  # the text is placed inwards
        _add_row(figure, row, y, ACCENT if row.is_pick else PALETTE[0], side)
    legend = _legend(data.rows, study.spec, verdict(study))
    for label, marker in legend:
        figure.add_scatter(x=[None], y=[0], mode="markers", name=label, marker=marker)
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.4, -0.7], showgrid=False, title=None,
        ticks="", ticklabelstandoff=8,
    )  # fmt: skip
    figure.update_layout(
        legend=LEGEND_BELOW,
        margin={"b": 76 + 19 * len(legend)},
        height=height + 19 * len(legend),
    )
    figure.update_xaxes(range=[low, high])
    return figure


def _place_text(row: RankingRow, y: int) -> str:
    """Return the place of a row if rows are left out above it, else ""."""
    return "" if row.place == y + 1 else f" (place {row.place})"


def _legend(rows: tuple[RankingRow, ...], spec: StudySpec, found: Verdict) -> list[tuple[str, dict[str, Any]]]:
    """Return the kinds of marks of these rows with their names; with one seed there are neither dots nor intervals."""
    n_seeds = len(spec.seeds)
    marks: list[tuple[str, dict[str, Any]]] = [
        (f"in the search, {over_seeds_text(n_seeds)}", {"symbol": "diamond", "size": 11, "color": PALETTE[0]})
    ]
    if n_seeds > 1:
        marks.append(("one seed", {"symbol": "circle", "size": 7, "color": rgba(PALETTE[0], 0.55)}))
    if any(interval_text(row.best.low, row.best.high) for row in rows):
        bar = {"symbol": "line-ew", "size": 16, "line": {"width": 8, "color": rgba(PALETTE[0], 0.3)}}
        marks.append(("95% interval in the search", bar))
    if any(row.further is not None for row in rows):
        marks.append((confirmed_text(spec, found), CONFIRMED_MARKER))
    return marks


def _add_row(figure: go.Figure, row: RankingRow, y: int, color: str, side: str) -> None:
    entry = row.best
    if not math.isnan(entry.low):
        figure.add_scatter(
            x=rounded([entry.low, entry.high]),
            y=[y, y],
            mode="lines",
            line={"color": rgba(color, 0.3), "width": 12},
            hoverinfo="skip",
            showlegend=False,
        )
    figure.add_scatter(
        x=rounded(entry.seed_values),
        y=[y] * len(entry.seed_values),
        mode="markers",
        marker={"color": rgba(color, 0.55), "size": 7},
        hovertemplate=f"<b>{plain(row.label)}</b><br>one seed: %{{x:.4g}}<extra></extra>",
        showlegend=False,
    )
    of = f"best of {row.n_trials} trials<br>" if row.n_trials > 1 else ""
    figure.add_scatter(
        x=rounded([entry.value]),
        y=[y],
        mode="markers+text",
        text=[f"<b>{plain(spread_text(entry.value, entry.spread))}</b>"],
        textposition=f"top {side}",
        textfont={"size": 11, "color": color},
        cliponaxis=False,
        marker={"symbol": "diamond", "size": 11, "color": color, "line": {"color": "#ffffff", "width": 1}},
        hovertemplate=(
            f"<b>{plain(row.label)}</b> (trial #{entry.number})<br>{plain(row.settings)}<br>{of}"
            f"{spread_text(entry.value, entry.spread)} in the search, {over_seeds_text(entry.n_seeds)}"
            "<extra></extra>"
        ),
        showlegend=False,
    )
    if row.further is not None:
        _add_further(figure, row.label, row.further, y + 0.28)


def _add_further(figure: go.Figure, label: str, further: Ranked, y: float) -> None:
    """Draw the value of a row on further seeds, below that of the search."""
    known = not math.isnan(further.low)
    expected = f"<br>95% interval {interval_text(further.low, further.high)}" if known else ""
    figure.add_scatter(
        x=rounded([further.value]),
        y=[y],
        mode="markers",
        marker=CONFIRMED_MARKER,
        error_x=error_bars(
            [further.value], [further.low], [further.high], color=CONFIRMED_MARKER["color"], thickness=1.5, width=4
        ),
        hovertemplate=(
            f"<b>{plain(label)}</b><br>{spread_text(further.value, further.spread)} on further seeds, "
            f"{over_seeds_text(further.n_seeds)}{expected}<extra></extra>"
        ),
        showlegend=False,
    )


def _padded_range(rows: tuple[RankingRow, ...]) -> tuple[float, float]:
    """Return an axis range around all seeds and bars; Plotly's default would cut off the ends of bars."""
    entries = [entry for row in rows for entry in (row.best, row.further) if entry is not None]
    values = [value for entry in entries for value in (*entry.seed_values, entry.value)]
    values += [end for entry in entries for end in (entry.low, entry.high) if not math.isnan(end)]
    low, high = min(values), max(values)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    return low - margin, high + margin


def _own_settings(params: dict[str, Any]) -> str:
    rest = {name: value for name, value in params.items() if name not in ("agent", "optimizer")}
    if list(rest) == ["learning_rate"]:
        return f"at {param_text('learning_rate', rest['learning_rate'])}"
    return params_text(rest)


def _wrapped(text: str, most: int, width: int = 22) -> str:
    """Return settings as a few short lines, since a long one would leave no room for the figure on a phone."""
    if most == 1:
        return plain(shortened(text, width + 4))
    lines = textwrap.wrap(text, width, max_lines=most, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(plain(line) for line in lines)
