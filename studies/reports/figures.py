"""Which figures a study has: the same ones in the HTML report and in the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from studies.reports.learning_curves import plot_learning_curves
from studies.reports.learning_rate import learning_rate_params, plot_learning_rate
from studies.reports.optimizers import plot_optimizers
from studies.reports.range_tests import plot_range_tests, range_tests_data
from studies.reports.states import plot_trials
from studies.reports.theme import thin

if TYPE_CHECKING:
    from studies.study import OpenStudy

MOST_POINTS = 3_000
"""Of a line or a cloud in a report; of longer ones, every so-manieth is shown."""

MOST_POINTS_OF_A_CARD = 400
"""The same in the dashboard, which keeps figures in the storage and sends them again and again."""


def study_figures(study: OpenStudy, compact: bool = False) -> dict[str, go.Figure]:
    """Returns a study's figures in reading order, by an id that stays the same, such as `finder-learning-rate`.

    A learning-rate figure for each searched learning rate, the range tests where there are some, and always the
    ranking, the learning curves and the trials in order.

    Args:
        study: The study.
        compact: Whether to show fewer rows, curves and points, for the dashboard's small cards. Defaults to `False`.
    """
    figures: dict[str, go.Figure] = {}
    tests = range_tests_data(study)
    if tests:
        figures["finder-range-test"] = plot_range_tests(tests)
    for name in learning_rate_params(study):
        suffix = name.removesuffix("learning_rate").rstrip(".").replace(".", "-")
        figures[f"finder-learning-rate{'-' + suffix if suffix else ''}"] = plot_learning_rate(study, name)
    if tests and study.spec.kind == "range-test":
        return figures  # one sweep a trial: there is nothing to rank, and its curve is the figure above
    figures["finder-ranking"] = plot_optimizers(study, max_rows=6 if compact else 12)
    figures["finder-learning-curves"] = plot_learning_curves(study, max_curves=3 if compact else 6)
    figures["finder-trials"] = plot_trials(study)
    for figure in figures.values():
        thin(figure, MOST_POINTS_OF_A_CARD if compact else MOST_POINTS)
    return figures
