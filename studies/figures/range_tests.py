"""Range tests: runs with an increasing learning rate, their curves and suggestions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from studies.figures.theme import (
    ACCENT,
    add_band,
    annotate_rate,
    colors,
    explain_band,
    log_axis,
    new_figure,
    plain,
    rgba,
    rounded,
    shade_interval,
)
from studies.study.study import OpenStudy, check_open
from studies.words import rate_text

RANGE_TEST_ATTR = "range_test"


class Band(NamedTuple):
    """The smoothed curves of several runs of a range test at common rates.

    Attributes:
        rates: Learning rates, ascending, [B].
        low: Lowest value of a run at each rate, [B].
        mean: Mean of the runs, [B].
        high: Highest value of a run, [B].
    """

    rates: tuple[float, ...]
    low: tuple[float, ...]
    mean: tuple[float, ...]
    high: tuple[float, ...]


class RangeTest(NamedTuple):
    """Curve of a range test, with its suggestion (None: no safe suggestion) and, of several runs, their band."""

    label: str
    metric: str
    rates: tuple[float, ...]
    values: tuple[float, ...]
    suggestion: float | None
    rule: str
    band: Band | None
    low: float
    high: float


def range_tests_data(study: OpenStudy) -> tuple[RangeTest, ...]:
    """Return the range tests of a study: attributes `range_test` of its trials, and of the study itself."""
    check_open(study)
    raw = [
        (f"#{trial.number}", trial.user_attrs[RANGE_TEST_ATTR])
        for trial in study.trials()
        if RANGE_TEST_ATTR in trial.user_attrs
    ]
    kept = study.study.user_attrs.get(RANGE_TEST_ATTR)
    raw += [("", test) for test in (kept if isinstance(kept, list) else [kept]) if test]
    tests = []
    for number, test in raw:
        pairs = [(rate, value) for rate, value in zip(test["rates"], test["values"], strict=True) if rate and rate > 0]
        if pairs:
            rates, values = zip(*pairs, strict=True)
            label = f"{test.get('optimizer', '')} {number}".strip() or "range test"
            tests.append(
                RangeTest(
                    label=label,
                    metric=test.get("metric", "loss"),
                    rates=rates,
                    values=tuple(map(_number, values)),
                    suggestion=test.get("suggestion"),
                    rule=test.get("rule", "rule"),
                    band=_band(test.get("band")),
                    low=_number(test.get("low")),
                    high=_number(test.get("high")),
                )
            )
    return tuple(tests)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _band(stored: dict[str, list[float]] | None) -> Band | None:
    return None if stored is None else Band(*(tuple(stored[name]) for name in Band._fields))


def add_runs(figure: go.Figure, band: Band, name: str, color: str, hover: str) -> None:
    """Draw the mean of several runs, and the area between the lowest and the highest of them.

    Args:
        figure: Figure to add to.
        band: The runs.
        name: Name of the line in the legend.
        color: Colour of the line, `#rrggbb`.
        hover: Template of the text of a point.
    """
    add_band(figure, band.rates, band.low, band.high, group=name, color=rgba(color, 0.18))
    line = {"color": color, "width": 2.5}
    figure.add_scatter(
        x=list(band.rates), y=list(band.mean), mode="lines", name=plain(name), legendgroup=name, line=line,
        hovertemplate=hover,
    )  # fmt: skip
    explain_band(figure)


def mark_suggestion(figure: go.Figure, rate: float) -> None:
    """Draw a vertical line at the suggested rate."""
    figure.add_vline(x=rate, line={"color": ACCENT, "width": 1.5, "dash": "dot"})


def plot_range_tests(tests: Sequence[RangeTest]) -> go.Figure:
    """Plot range tests as lines with their bands, with their suggestions as vertical lines.

    Args:
        tests: At least one, as `range_tests_data` returns them.
    """
    metric = tests[0].metric
    y_title = "return of an episode" if metric == "return" else "loss of a gradient step"
    figure = new_figure("Learning-rate range test", "learning rate (log scale)", y_title)
    palette = colors([test.label for test in tests])
    for test in tests:
        color = palette[test.label]
        hover = f"<b>{plain(test.label)}</b><br>rate %{{x:.3g}}<br>{metric} %{{y:.4g}}<extra></extra>"
        if test.band is None:
            figure.add_scatter(
                x=list(test.rates),
                y=rounded(test.values),
                mode="lines",
                name=plain(test.label),
                line={"color": color, "width": 2},
                hovertemplate=hover,
            )
        else:
            add_runs(figure, test.band, f"{test.label}, mean of the runs", color, hover)
        if test.suggestion is not None:
            shade_interval(figure, test.low, test.high)
            mark_suggestion(figure, test.suggestion)
    suggestions = [test for test in tests if test.suggestion is not None]
    for test in suggestions[:1]:
        assert test.suggestion is not None
        rates = [rate for each in tests for rate in each.rates]
        annotate_rate(figure, test.suggestion, f"suggestion ({test.rule}): {rate_text(test.suggestion)}", rates)
    if not suggestions:
        figure.add_annotation(
            text="no safe suggestion", x=0.5, y=1.0, xref="paper", yref="paper", yanchor="bottom", showarrow=False,
            font={"color": ACCENT, "size": 12},
        )  # fmt: skip
    figure.update_xaxes(**log_axis([rate for test in tests for rate in test.rates]))
    return figure
