"""The best trial of a search so far, by its value in the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.study.study import OpenStudy


@dataclass(frozen=True)
class Best:
    """The best complete trial so far.

    Attributes:
        number: Number of the trial.
        params: Its parameters.
        value: Its value; of several objectives that of the first one.
        spread: Standard deviation of the value over seeds.
        metric: Text of the metric by which it is the best, the first of several; empty for returns.
    """

    number: int
    params: Mapping[str, Any]
    value: float
    spread: float
    metric: str = ""


def best_of(study: OpenStudy, shown: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Best | None:
    """Return the best complete trial of a study, by its value in the search; None without one, and for range tests.

    Args:
        study: The study.
        shown: Returns the parameters of a trial that are displayed.
    """
    # Displays are imported by every command: Optuna is not.
    from optuna.trial import TrialState

    from studies.spec.attributes import seed_values
    from studies.statistics.values import sign_of, spread_of_seeds

    if study.spec.kind == "range-test":
        return None
    judged = study.by_objective(study.spec.metric) if study.spec.metrics else study
    valued = [(trial, trial.value) for trial in judged.trials(TrialState.COMPLETE) if trial.value is not None]
    if not valued:
        return None
    sign = sign_of(judged.direction)
    trial, value = max(valued, key=lambda each: sign * each[1])
    spread = spread_of_seeds(list(seed_values(trial).values()))
    return Best(trial.number, shown(study.params(trial)), value, spread, metric_text(study))


def metric_text(study: OpenStudy | None) -> str:
    """Return the text of the metric of a study, the first of several; empty for returns."""
    from studies.spec.metrics import metric_of

    if study is None or (study.spec.metric == "return" and not study.spec.metrics):
        return ""
    return metric_of(study.spec.metric).text
