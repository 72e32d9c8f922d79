"""Who is best: optimizers (or agents) each at its own best settings, or the best trials, with every seed shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import plotly.graph_objects as go

from studies.ranking import Ranked
from studies.reports.facts import group_label, ranking
from studies.reports.theme import ACCENT, PALETTE, faded, new_figure, plain, rounded, say_empty, value_title
from studies.words import counted, param_text, params_text, spread_text

if TYPE_CHECKING:
    from studies.study import OpenStudy


class RankingRow(NamedTuple):
    """A row of the figure: who, at which settings, and its value on each seed."""

    label: str
    settings: str
    best: Ranked
    n_trials: int
    is_pick: bool


class OptimizersData(NamedTuple):
    """What the figure shows.

    Attributes:
        metric: `return` or `loss`.
        grouped: Whether a row is an optimizer or agent at its own best, or one trial.
        rows: Best first.
    """

    metric: str
    grouped: bool
    rows: tuple[RankingRow, ...]


def optimizers_data(study: OpenStudy, max_rows: int = 12) -> OptimizersData:
    """Returns what `plot_optimizers` draws.

    Args:
        study: The study.
        max_rows: How many rows. Defaults to `12`.
    """
    facts = ranking(study)
    ranked = facts.ranked
    labels = [group_label(dict(entry.params)) for entry in ranked]
    grouped = len(set(labels)) > 1
    if not grouped:
        rows = [
            RankingRow(f"#{entry.number}", params_text(dict(entry.params)), entry, 1, entry is facts.pick)
            for entry in ranked
        ]
        return OptimizersData(study.spec.metric, grouped, tuple(rows[:max_rows]))
    best: dict[str, Ranked] = {}
    for label, entry in zip(labels, ranked, strict=True):
        if entry is facts.pick:  # of its own kind it may be the most robust one, not the best one
            best[label] = entry
        best.setdefault(label, entry)
    rows = [
        RankingRow(
            label or "default", _own_settings(dict(entry.params)), entry, labels.count(label), entry is facts.pick
        )
        for label, entry in best.items()
    ]
    return OptimizersData(study.spec.metric, grouped, tuple(rows[:max_rows]))


def plot_optimizers(study: OpenStudy, max_rows: int = 12) -> go.Figure:
    """Draws the ranking: the value as a diamond, its 95% interval as a bar, each seed as a dot.

    Where optimizers or agents were searched, each is judged at its own best settings, never at another's. The bar is
    around the value and does not start at 0, because returns are often negative, where the best bar would be the
    shortest.

    Args:
        study: The study.
        max_rows: How many rows. Defaults to `12`.
    """
    data = optimizers_data(study, max_rows)
    title = "Ranking, each at its own best settings" if data.grouped else "Ranking of the best trials"
    figure = new_figure(title, value_title(data.metric), "", height=150 + 46 * max(3, len(data.rows)))
    if not data.rows:
        return say_empty(figure, "No trial is complete yet.")
    names = [f"<b>{plain(row.label)}</b><br>{plain(_shortened(row.settings))}" for row in data.rows]
    for row, name in zip(data.rows, names, strict=True):
        _add_row(figure, row, name, ACCENT if row.is_pick else PALETTE[0])
    for label, marker in (
        ("interquartile mean over seeds", {"symbol": "diamond", "size": 11, "color": PALETTE[0]}),
        ("one seed", {"symbol": "circle", "size": 7, "color": faded(PALETTE[0], 0.55)}),
        (
            "95% interval of the expected value",
            {"symbol": "line-ew", "size": 16, "line": {"width": 8, "color": faded(PALETTE[0], 0.3)}},
        ),
    ):
        figure.add_scatter(x=[None], y=[names[0]], mode="markers", name=label, marker=marker)
    figure.update_yaxes(range=[len(names) - 0.5, -0.75], showgrid=False, title=None, ticks="", ticklabelstandoff=8)
    figure.update_layout(legend={"y": 0.01, "yref": "container", "yanchor": "bottom"}, margin={"b": 84})
    figure.update_xaxes(range=_padded_range(data.rows))
    return figure


def _add_row(figure: go.Figure, row: RankingRow, name: str, color: str) -> None:
    entry = row.best
    if not math.isnan(entry.low):
        figure.add_scatter(
            x=rounded([entry.low, entry.high]),
            y=[name, name],
            mode="lines",
            line={"color": faded(color, 0.3), "width": 12},
            hoverinfo="skip",
            showlegend=False,
        )
    figure.add_scatter(
        x=rounded(entry.seed_values),
        y=[name] * len(entry.seed_values),
        mode="markers",
        marker={"color": faded(color, 0.55), "size": 7},
        hovertemplate=f"<b>{plain(row.label)}</b><br>one seed: %{{x:.4g}}<extra></extra>",
        showlegend=False,
    )
    of = f"best of {row.n_trials} trials<br>" if row.n_trials > 1 else ""
    figure.add_scatter(
        x=rounded([entry.value]),
        y=[name],
        mode="markers+text",
        text=[f"<b>{plain(spread_text(entry.value, entry.spread))}</b>"],
        textposition="top center",
        textfont={"size": 11, "color": color},
        marker={"symbol": "diamond", "size": 11, "color": color, "line": {"color": "#ffffff", "width": 1}},
        hovertemplate=(
            f"<b>{plain(row.label)}</b> (trial #{entry.number})<br>{plain(row.settings)}<br>{of}"
            f"{spread_text(entry.value, entry.spread)} over {counted(entry.n_seeds, 'seed')}"
            "<extra></extra>"
        ),
        showlegend=False,
    )


def _padded_range(rows: tuple[RankingRow, ...]) -> list[float]:
    """Returns an axis range around all seeds and bars; Plotly's own would cut the bars' ends."""
    values = [value for row in rows for value in row.best.seed_values]
    for row in rows:
        values += [end for end in (row.best.low, row.best.high) if not math.isnan(end)]
    low, high = min(values), max(values)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    return [low - margin, high + margin]


def _own_settings(params: dict[str, Any]) -> str:
    rest = {name: value for name, value in params.items() if name not in ("agent", "optimizer")}
    if list(rest) == ["learning_rate"]:
        return f"at {param_text('learning_rate', rest['learning_rate'])}"
    return params_text(rest)


def _shortened(text: str, limit: int = 38) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
