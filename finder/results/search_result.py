"""The result of a search: the pick, a table and a figure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agents.errors import ConfigurationError
from studies.analysis.no_recommendation import NoRecommendation
from studies.analysis.recommendation import Recommendation, best, best_optimizer
from studies.judging.missing_pick import why_no_pick
from studies.judging.pareto_front import ParetoFront, pareto_front
from studies.spaces.rates import is_learning_rate
from studies.spec.metrics import metric_of
from studies.spec.objectives import names_of
from studies.study.study import OpenStudy

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from finder.results.table import TrialTable


def finder_repr(finder: str, result: object | None) -> str:
    """Return the representation of a finder, with the result after a search."""
    return finder if result is None else f"{finder}\n{result!r}"


def require_losses(result: SearchResult) -> None:
    """Raise `ConfigurationError` if a search was not by losses."""
    names = names_of(result.study.spec)
    if all(metric_of(name).kind != "loss" for name in names):
        raise ConfigurationError(
            f"The study {result.study.name!r} compares its trials by {' and '.join(names)}, not by losses: call "
            "plot_reward(), or search with metric='loss'."
        )


def loss_figure(result: SearchResult) -> go.Figure:
    """Return the figure of a search by losses.

    Raises:
        ConfigurationError: It was a search by another metric.
    """
    require_losses(result)
    return result.plot()


class SearchResult:
    """The result of a study.

    Args:
        study: The open study. It stays open while the result is used.
        stopped: Reason of an early stop, or None.
    """

    def __init__(self, study: OpenStudy, stopped: str | None = None) -> None:
        self.study = study
        self.stopped = stopped

    def __repr__(self) -> str:
        from finder.results.advice import advice
        from studies.analysis.conclusion import conclusion
        from studies.reports.explanation import counts_text

        found = conclusion(self.study)
        lines = [*found.lines, f"{self.study.name}: {counts_text(self.study)}, in {self.study.storage.label}"]
        lines += [f"to be surer: {each.text} ({each.purpose})" for each in advice(self.study, found)]
        return "\n".join(lines if self.stopped is None else [*lines, f"stopped: {self.stopped}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.table()._repr_html_()}"

    @property
    def best(self) -> Recommendation | NoRecommendation:
        """The pick: its parameters, value, spread over seeds, and the configuration to reuse.

        A study without a pick has a `NoRecommendation`, which is false and has a `reason`; all other attributes of it
        raise a `StudyError` with this reason.
        """
        reason = why_no_pick(self.study)
        return NoRecommendation(self.study.name, reason) if reason else best(self.study)

    @property
    def front(self) -> ParetoFront:
        """The Pareto front of a study with several objectives.

        Raises:
            StudyError: The study has one metric.
        """
        return pareto_front(self.study)

    def best_optimizer(
        self, name: str = "default", *, env_steps: int | None = None, allow_modules: Sequence[str] = ()
    ) -> Any:
        """Return a fresh Keras optimizer with the settings of the pick; with a horizon, its learning rate is corrected.

        Args:
            name: Name of the optimizer, for agents with several. Defaults to ``"default"``.
            env_steps: Environment steps of the long run; see `studies.best_optimizer`. Defaults to None.
            allow_modules: See `studies.best_optimizer`.
        """
        return best_optimizer(
            self.study.name, self.study.storage, name, env_steps=env_steps, allow_modules=allow_modules
        )

    def table(self) -> TrialTable:
        """Return a table of the trials: the pick, number, parameters, value, spread, seeds, state, steps and reason."""
        from finder.results.table import trial_table

        return trial_table(self.study)

    def plot(self) -> go.Figure:
        """Draw the value of every trial: over the learning rate if it was searched, else as a ranking.

        Of several objectives, the Pareto front is drawn.
        """
        from studies.reports import plot_learning_rate, plot_trials

        if self.study.spec.metrics:
            from studies.figures.pareto import plot_pareto_front

            return plot_pareto_front(self.study)
        has_rates = any(is_learning_rate(name) for name in self.study.spec.search_space())
        return plot_learning_rate(self.study) if has_rates else plot_trials(self.study)

    def report(self, path: str) -> str:
        """Write the report as one HTML file, and return its path."""
        from studies.reports import write_report

        return str(write_report(self.study, path))

    def close(self) -> None:
        """Close the connections of the study."""
        self.study.close()


class OptimizerResult(SearchResult):
    """The result of comparing optimizers."""

    def plot(self) -> go.Figure:
        """Draw the optimizers in order, each at its best learning rate, with the value of every seed."""
        from studies.reports import plot_optimizers

        return plot_optimizers(self.study)
