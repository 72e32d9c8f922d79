"""Figures of a study, the same in the HTML report and in the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from studies.figures.importances import plot_importances, searched_params
from studies.figures.learning_curves import plot_learning_curves
from studies.figures.learning_rate import learning_rate_params, plot_learning_rate
from studies.figures.optimizers import plot_optimizers
from studies.figures.parallel_coordinates import plot_parallel_coordinates
from studies.figures.pareto import plot_pareto_front
from studies.figures.range_tests import plot_range_tests, range_tests_data
from studies.figures.schedules import plot_schedules
from studies.figures.theme import legend_below, thin
from studies.figures.trials import plot_trials
from studies.spec.scheduler_names import is_population_based

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

MOST_POINTS = 3_000
"""Maximum number of points of a line or a cloud in a report; longer ones are thinned out."""

MOST_POINTS_OF_A_CARD = 400
"""The same in the dashboard, which stores figures in the storage and sends them repeatedly."""


_ORDER = (
    "finder-range-test",
    "finder-pareto-front",
    "finder-learning-rate",
    "finder-schedules",
    "finder-ranking",
    "finder-importances",
    "finder-parallel-coordinates",
    "finder-learning-curves",
    "finder-trials",
)


def reading_place(name: str) -> tuple[int, str]:
    """Return the sort key of a figure in reading order; figures of other programs come last."""
    places = [place for place, start in enumerate(_ORDER) if name == start or name.startswith(f"{start}-")]
    return (places[-1] if places else len(_ORDER), name)


def study_figures(study: OpenStudy, compact: bool = False) -> dict[str, go.Figure]:
    """Return the figures of a study in reading order, by stable ids such as `finder-learning-rate`.

    There is a learning-rate figure for each searched learning rate, range tests if there are any, importances and
    parallel coordinates if several parameters were searched (with population-based training the schedules in place of
    these, as parameters change), and always the ranking, the learning curves and the trials
    in order.

    Args:
        study: The study.
        compact: Whether to show fewer rows, curves and points, for the small cards of the dashboard. Defaults to
            `False`.
    """
    figures: dict[str, go.Figure] = {}
    tests = range_tests_data(study)
    if tests:
        figures["finder-range-test"] = plot_range_tests(tests)
    changes = is_population_based(study.spec.pruner)  # figures of constant parameters would mislead
    if changes:
        figures["finder-schedules"] = plot_schedules(study)
    for name in () if changes else learning_rate_params(study):
        suffix = name.removesuffix("learning_rate").rstrip(".").replace(".", "-")
        figures[f"finder-learning-rate{'-' + suffix if suffix else ''}"] = plot_learning_rate(study, name)
    if tests and study.spec.kind == "range-test":
        return figures  # one sweep per trial: there is nothing to rank, and its curve is the figure above
    if study.spec.metrics:
        figures["finder-pareto-front"] = plot_pareto_front(study)
    figures["finder-ranking"] = plot_optimizers(study, max_rows=5 if compact else 10, max_lines=1 if compact else 3)
    if len(searched_params(study)) > 1 and not changes:
        figures["finder-importances"] = plot_importances(study, max_rows=6 if compact else 10)
        sizes = {"max_params": 4, "max_lines": 80} if compact else {}
        figures["finder-parallel-coordinates"] = plot_parallel_coordinates(study, **sizes)
    figures["finder-learning-curves"] = plot_learning_curves(study, max_curves=3 if compact else 6)
    figures["finder-trials"] = plot_trials(study)
    for name, figure in figures.items():
        if not compact and name.startswith(("finder-learning-rate", "finder-parallel-coordinates")) and figure.data:
            legend_below(figure, 420)  # cards have a fixed height, and are never as narrow
        if name != "finder-parallel-coordinates":  # thinning would change the shape of a line
            thin(figure, MOST_POINTS_OF_A_CARD if compact else MOST_POINTS)
    return figures
