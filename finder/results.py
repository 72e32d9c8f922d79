"""What a search gives back: the pick, a table, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from studies.pick import Pick, best, best_optimizer
from studies.study import OpenStudy

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


class SearchResult:
    """A study that was run.

    Args:
        study: The open study; it stays open for as long as the result is used.
        stopped: Why it ended early, or None.
    """

    def __init__(self, study: OpenStudy, stopped: str | None = None) -> None:
        self.study = study
        self.stopped = stopped

    @property
    def best(self) -> Pick:
        """The best trial: its parameters, value, spread over seeds, and the configuration to reuse.

        Raises:
            StudyError: No trial was completed.
        """
        return best(self.study)

    def best_optimizer(self, name: str = "default") -> Any:
        """A fresh Keras optimizer as the pick has it, ready for the long run."""
        return best_optimizer(self.study.name, self.study.storage, name)

    def table(self) -> pd.DataFrame:
        """A row a trial: number, parameters, value, spread over seeds, seeds, state, steps, seconds, reason."""
        import pandas as pd

        from studies.pick import candidate
        from studies.ranking import rank

        rows = []
        for trial in self.study.trials():
            ranked = rank([candidate(self.study, trial)])[0] if trial.value is not None else None
            rows.append(
                {
                    "trial": trial.number,
                    **self.study.params(trial),
                    "value": trial.value,
                    "spread": ranked.spread if ranked else None,
                    "n_seeds": len(trial.user_attrs.get("seed_values", {})),
                    "state": trial.state.name,
                    "env_steps": trial.user_attrs.get("env_steps"),
                    "wall_seconds": trial.user_attrs.get("wall_seconds"),
                    "reason": trial.user_attrs.get("reason", ""),
                }
            )
        return pd.DataFrame(rows)

    def plot(self) -> go.Figure:
        """Value of every trial: over the learning rate where one was searched, as a ranking otherwise."""
        from studies.reports import plot_learning_rate, plot_trials

        return plot_learning_rate(self.study) if self._has_rates() else plot_trials(self.study)

    def report(self, path: str) -> str:
        """Writes the report, one HTML file, and returns its path."""
        from studies.reports import write_report

        return str(write_report(self.study, path))

    def close(self) -> None:
        """Closes the study's connections."""
        self.study.close()

    def _has_rates(self) -> bool:
        return any(name.endswith("learning_rate") for name in self.study.spec.search_space())


class OptimizerResult(SearchResult):
    """The result of comparing optimizers."""

    def plot(self) -> go.Figure:
        """Optimizers in order, each at its best learning rate, with the value of every seed."""
        from studies.reports import plot_optimizers

        return plot_optimizers(self.study)
