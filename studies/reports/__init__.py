"""Figures and reports of a study. One figure per file, as `..._data(study)` (tested) and `plot_...(study)` (drawn)."""

from studies.reports.html import write_report
from studies.reports.learning_curves import learning_curves_data, plot_learning_curves
from studies.reports.learning_rate import learning_rate_data, learning_rate_params, plot_learning_rate
from studies.reports.optimizers import optimizers_data, plot_optimizers
from studies.reports.range_tests import plot_range_tests, range_tests_data
from studies.reports.trials import plot_trials, states_data

__all__ = [
    "learning_curves_data",
    "learning_rate_data",
    "learning_rate_params",
    "optimizers_data",
    "plot_learning_curves",
    "plot_learning_rate",
    "plot_optimizers",
    "plot_range_tests",
    "plot_trials",
    "range_tests_data",
    "states_data",
    "write_report",
]
