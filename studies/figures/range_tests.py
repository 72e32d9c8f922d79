"""Range tests: runs with an increasing learning rate, their curves and suggestions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import plotly.graph_objects as go

from studies.figures.theme import ACCENT, annotate_rate, colors, log_axis, new_figure, plain, rounded
from studies.words import rate_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

RANGE_TEST_ATTR = "range_test"


class RangeTest(NamedTuple):
    """Curve of a range test, with its suggestion (None: no safe suggestion)."""

    label: str
    metric: str
    rates: tuple[float, ...]
    values: tuple[float, ...]
    suggestion: float | None
    rule: str


def range_tests_data(study: OpenStudy) -> tuple[RangeTest, ...]:
    """Return the range tests of a study: attributes `range_test` of its trials, and of the study itself."""
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
            numbers = tuple(math.nan if value is None else float(value) for value in values)
            tests.append(
                RangeTest(
                    label, test.get("metric", "loss"), rates, numbers, test.get("suggestion"), test.get("rule", "rule")
                )
            )
    return tuple(tests)


def plot_range_tests(tests: Sequence[RangeTest]) -> go.Figure:
    """Plot range tests as lines, with their suggestions as vertical lines.

    Args:
        tests: At least one, as `range_tests_data` returns them.
    """
    metric = tests[0].metric
    y_title = "return of an episode" if metric == "return" else "loss of a gradient step"
    figure = new_figure("Learning-rate range test", "learning rate (log scale)", y_title)
    palette = colors([test.label for test in tests])
    for test in tests:
        figure.add_scatter(
            x=list(test.rates),
            y=rounded(test.values),
            mode="lines",
            name=plain(test.label),
            line={"color": palette[test.label], "width": 2},
            hovertemplate=f"<b>{plain(test.label)}</b><br>rate %{{x:.3g}}<br>{metric} %{{y:.4g}}<extra></extra>",
        )
        if test.suggestion is not None:
            figure.add_vline(x=test.suggestion, line={"color": ACCENT, "width": 1.5, "dash": "dot"})
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
