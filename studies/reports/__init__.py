"""Reports of a study, and its figures under their public names (`studies.figures`)."""

from studies.figures.comparison import plot_picks, plot_progress
from studies.figures.importances import importances_data, plot_importances
from studies.figures.learning_curves import learning_curves_data, plot_learning_curves
from studies.figures.learning_rate import learning_rate_data, learning_rate_params, plot_learning_rate
from studies.figures.optimizers import optimizers_data, plot_optimizers
from studies.figures.parallel_coordinates import parallel_coordinates_data, plot_parallel_coordinates
from studies.figures.pareto import plot_pareto_front
from studies.figures.range_tests import plot_range_tests, range_tests_data
from studies.figures.trials import plot_trials, states_data
from studies.reports.comparison import write_comparison
from studies.reports.html import write_report

__all__ = [
    "importances_data",
    "learning_curves_data",
    "learning_rate_data",
    "learning_rate_params",
    "optimizers_data",
    "parallel_coordinates_data",
    "plot_importances",
    "plot_learning_curves",
    "plot_learning_rate",
    "plot_optimizers",
    "plot_parallel_coordinates",
    "plot_pareto_front",
    "plot_picks",
    "plot_progress",
    "plot_range_tests",
    "plot_trials",
    "range_tests_data",
    "states_data",
    "write_comparison",
    "write_report",
]
