"""The trials of a study as a table that prints in full."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from studies.analysis.recommendation import pick_or_none
from studies.population_based.schedule import Lineage
from studies.spec.attributes import CONFIRMS_ATTR, failure_kind, objective_seeds, seed_values
from studies.statistics.values import mean_of_seeds, spread_of_seeds
from studies.study.schedules import divergences_of, lineages_of
from studies.study.study import OpenStudy
from studies.words import number_text, param_text

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_MAX_ROWS = 60


class TrialTable(pd.DataFrame):
    """A data frame that prints numbers with their significant digits, all columns, and labels of rows."""

    @property
    def _constructor(self) -> type[TrialTable]:
        return TrialTable

    def __repr__(self) -> str:
        return self.to_string(index=self._has_labels(), max_rows=_MAX_ROWS, na_rep="", formatters=self._formatters())

    def _repr_html_(self) -> str:
        return self.to_html(
            index=self._has_labels(), max_rows=_MAX_ROWS, na_rep="", formatters=self._formatters(), border=0
        )

    def _has_labels(self) -> bool:
        """Return whether the index is more than the numbers of the rows, as that of a grouped table is."""
        return self.index.name is not None or not pd.api.types.is_integer_dtype(self.index.dtype)

    def _formatters(self) -> dict[Any, Callable[[Any], str]]:
        return {name: _formatter(str(name)) for name in self.columns}


def trial_table(study: OpenStudy, *, confirmations: bool = False) -> TrialTable:
    """Return a table of the trials of a study.

    Columns: the pick, number, parameters, value and spread over seeds, seeds, state, steps, seconds, kind and reason of
    a failure, and the mean of each custom metric over the last part of training and over seeds
    (`custom_metrics.NAME`). With several objectives, there are the value (`NAME`) and the spread (`NAME spread`) of
    each instead. With population-based training, there are the number that the weights of a trial began with
    (`initial NAME`) and the one that they ended with (`final NAME`) for each parameter, and how often it diverged and
    copied another trial (`divergences`).

    Args:
        study: The study.
        confirmations: Whether there is a row for each confirmation on further seeds too, and a column `confirms`, the
            trial that it confirms. Defaults to False.
    """
    pick, lineages = pick_or_none(study), lineages_of(study)
    diverged = divergences_of(study)
    rows = []
    for trial in study.all_trials() if confirmations else study.trials():
        seeds = tuple(seed_values(trial).values())
        metrics: dict[str, dict[str, float]] = trial.user_attrs.get("custom_metrics", {})
        rows.append(
            {
                "pick": pick is not None and trial.number == pick.trial,
                "trial": trial.number,
                **({"confirms": trial.user_attrs.get(CONFIRMS_ATTR)} if confirmations else {}),
                **_params(study.params(trial), lineages.get(trial.user_attrs.get(CONFIRMS_ATTR, trial.number))),
                **_values(study, trial),
                "n_seeds": len(seeds),
                "state": trial.state.name,
                "env_steps": trial.user_attrs.get("env_steps"),
                "wall_seconds": trial.user_attrs.get("wall_seconds"),
                **{f"custom_metrics.{name}": own["mean"] for name, own in sorted(metrics.items())},
                **({"divergences": len(diverged.get(trial.number, ()))} if lineages else {}),
                "failure": failure_kind(trial) or "",
                "reason": trial.user_attrs.get("reason", ""),
            }
        )
    return TrialTable(rows)


def _params(params: dict[str, Any], weights: Lineage | None) -> dict[str, Any]:
    """Return the parameters of a trial; of those that changed while it trained the first and the last number."""
    if weights is None:
        return params
    ends = (("initial", weights.schedule[0].params), ("final", weights.schedule[-1].params))
    constant = {name: value for name, value in params.items() if name not in weights.schedule[0].params}
    return {**constant, **{f"{when} {name}": value for when, of in ends for name, value in of.items()}}


def _values(study: OpenStudy, trial: FrozenTrial) -> dict[str, float | None]:
    """Return the value of a trial and its spread over seeds; with several objectives those of each."""
    if not study.spec.metrics:
        seeds = tuple(seed_values(trial).values())
        return {"value": trial.value, "spread": None if trial.value is None else spread_of_seeds(seeds)}
    values: dict[str, float | None] = {}
    by_objective = objective_seeds(trial.user_attrs)
    for name in study.spec.metrics:
        own = tuple(by_objective.get(name, {}).values())
        values[name] = float(mean_of_seeds(own)) if own else None
        values[f"{name} spread"] = spread_of_seeds(own)
    return values


_FORMATS: dict[str, Callable[[Any], str]] = {
    "pick": lambda is_pick: "pick" if is_pick else "",
    "value": number_text,
    "spread": lambda spread: number_text(float(f"{spread:.2g}")),
    "env_steps": "{:,.0f}".format,
    "wall_seconds": "{:.1f}".format,
    "reason": lambda reason: textwrap.shorten(str(reason).partition("\n")[0], 80, placeholder=" ..."),
}


def _formatter(name: str) -> Callable[[Any], str]:
    known = _FORMATS.get("spread" if name.endswith(" spread") else name)

    def text(value: Any) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):  # unknown values are left empty
            return ""
        return known(value) if known else param_text(name, value)

    return text
