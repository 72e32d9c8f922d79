"""Importances of several searched parameters, with the level that chance gives."""

from __future__ import annotations

import json
import math
import warnings
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import optuna
import plotly.graph_objects as go
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState, create_trial

from studies.adapters.quiet_optuna import quiet_optuna
from studies.figures.ranking import ranking
from studies.figures.theme import LEGEND_BELOW, PALETTE, QUIET, annotate_empty, new_figure, plain, rounded, shortened
from studies.judging.confirmation import pruned_estimates
from studies.spaces.spaces import Fixed
from studies.spec.attributes import has_diverged
from studies.statistics.values import sign_of
from studies.study.study import OpenStudy, check_open
from studies.words import counted

MIN_TRIALS = 10
"""Number of trials below which no importances are shown: the best are compared with all, and fewer than five are too
few.
"""

_BEST = 5
_SHUFFLES = 99
_ALPHA = 0.05


class Importance(NamedTuple):
    """Importance of a parameter.

    Attributes:
        name: Parameter.
        share: Share of the total importance, from 0 to 1.
        chance: 95% quantile of the share if values are independent of parameters.
        sure: Whether the share exceeds chance, with 95% confidence for each parameter separately.
    """

    name: str
    share: float
    chance: float
    sure: bool


class ImportancesData(NamedTuple):
    """Data of the figure.

    Attributes:
        metric: `StudySpec.metric_text`.
        n_trials: Number of compared trials: complete, pruned and diverged ones.
        importances: The most important first; empty if they cannot be computed.
        why_none: Reason why they cannot be computed, "" if they can.
    """

    metric: str
    n_trials: int
    importances: tuple[Importance, ...]
    why_none: str


def searched_params(study: OpenStudy) -> list[str]:
    """Return the searched parameters that are not fixed."""
    check_open(study)
    return [name for name, space in study.spec.search_space().items() if not isinstance(space, Fixed)]


_FOUND: WeakKeyDictionary[optuna.Study, tuple[object, ImportancesData]] = WeakKeyDictionary()
"""Last result for a study, with its inputs: figures and the dashboard ask for it several times."""


def importances_data(study: OpenStudy) -> ImportancesData:
    """Return the data of `plot_importances`.

    The importances are those of PED-ANOVA (Watanabe et al. 2023, arXiv 2304.10255; for conditional parameters arXiv
    2601.20800): the difference between the distributions of a parameter among the best trials and among all. They
    depend on the order of values only, so pruned trials take part with their estimated final values, and diverged ones
    as the worst: without them, only the survivors of a race would be compared. The same computation with values
    shuffled among the trials gives the level of chance.
    """
    check_open(study)
    now = (study.spec, tuple((trial.number, trial.state) for trial in study.trials() if trial.state.is_finished()))
    before = _FOUND.get(study.study)
    if before is None or before[0] != now:
        before = _FOUND[study.study] = (now, _importances(study))
    return before[1]


def _importances(study: OpenStudy) -> ImportancesData:
    trials = _compared(study)
    n = len(trials)
    names = searched_params(study)
    nothing = ImportancesData(study.spec.metric_text, n, (), "")
    if n < MIN_TRIALS:
        return nothing._replace(why_none=f"{counted(n, 'trial')} of at least {MIN_TRIALS} that this needs")
    scores = np.array([score for _, score in trials])
    quantile = max(0.1, _BEST / n)
    n_best = int((scores <= np.sort(scores)[math.ceil(quantile * n) - 1]).sum())
    if n_best > n // 2:
        return nothing._replace(why_none="most trials are level: there is no difference to explain")
    table = _table([trial for trial, _ in trials])
    present = [name for name in names if any(name in trial.params for trial, _ in trials)]
    found = _evaluated(table, present, scores, quantile)
    random = np.random.default_rng(0)
    shuffled = np.array([_evaluated(table, present, random.permutation(scores), quantile) for _ in range(_SHUFFLES)])
    total = found.sum()
    if not total > 0:
        return nothing._replace(why_none="no parameter is distributed differently among the best trials")
    p_values = (1 + (shuffled >= found).sum(axis=0)) / (1 + _SHUFFLES)
    chance = np.quantile(shuffled, 1 - _ALPHA, axis=0) / total
    importances = [
        Importance(name, float(share), float(limit), bool(p <= _ALPHA))
        for name, share, limit, p in zip(present, found / total, chance, p_values, strict=True)
    ]
    importances.sort(key=lambda each: -each.share)
    return ImportancesData(study.spec.metric_text, n, tuple(importances), "")


def plot_importances(study: OpenStudy, max_rows: int = 10) -> go.Figure:
    """Plot the importances of the searched parameters, in grey those that chance may explain.

    Args:
        study: The study.
        max_rows: Maximum number of parameters. Defaults to `10`.
    """
    data = importances_data(study)
    shown = data.importances[:max_rows]
    figure = new_figure(
        "Importance of parameters", "share of all importances", "", height=190 + 34 * max(3, len(shown))
    )
    if not shown:
        return annotate_empty(figure, f"Not enough data yet: {data.why_none}.")
    places = range(len(shown))
    names = [f"<b>{plain(each.name)}</b>" for each in shown]
    for sure, color, legend in (
        (True, PALETTE[0], f"beyond chance (95%), {counted(data.n_trials, 'trial')}"),
        (False, QUIET, "may be chance"),
    ):
        rows = [place for place in places if shown[place].sure == sure]
        if rows:
            figure.add_bar(
                x=rounded([shown[place].share for place in rows]),
                y=rows,
                orientation="h",
                name=legend,
                marker={"color": color},
                text=[f"{shown[place].share:.0%}" for place in rows],
                customdata=[names[place] for place in rows],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{customdata}<br>%{text} of all importances<extra></extra>",
            )
    figure.add_scatter(
        x=rounded([min(each.chance, 1.0) for each in shown]),
        y=list(places),
        customdata=names,
        mode="markers",
        name="chance stays below (95%)",
        marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": PALETTE[1]}},
        hovertemplate="%{customdata}<br>by chance up to %{x:.0%}<extra></extra>",
    )
    labels = [plain(shortened(each.name, 22)) for each in shown]
    figure.update_yaxes(
        tickvals=list(places), ticktext=labels, range=[len(shown) - 0.5, -0.5], showgrid=False, title=None, ticks=""
    )
    figure.update_xaxes(range=[0, 1.08], tickformat=".0%")
    figure.update_layout(legend=LEGEND_BELOW, margin={"b": 120})
    return figure


def _compared(study: OpenStudy) -> list[tuple[FrozenTrial, float]]:
    """Return the trials that carry information about their parameters, each with a score, lower is better."""
    sign = -sign_of(study.direction)
    ranked = {entry.number: entry.value for entry in ranking(study).ranked}
    left = {_key(dict(each.params)): each.value for each in pruned_estimates(study)}
    found: list[tuple[FrozenTrial, float]] = []
    for trial in study.trials():
        if trial.state == TrialState.COMPLETE:
            found.append((trial, ranked.get(trial.number, math.nan)))
        elif trial.state == TrialState.PRUNED or has_diverged(trial):
            key = _key(study.params(trial))
            if key in left:
                found.append((trial, left.pop(key)))
    values = np.array([sign * value for _, value in found])
    worst = np.nanmax(values) + 1.0 if np.isfinite(values).any() else 0.0
    return [(trial, float(v) if math.isfinite(v) else worst) for (trial, _), v in zip(found, values, strict=True)]


def _key(params: dict[str, object]) -> str:
    return json.dumps(params, sort_keys=True, default=str)


def _table(trials: list[FrozenTrial]) -> optuna.Study:
    """Return a study in memory with these trials, complete, for Optuna's evaluator."""
    with quiet_optuna():
        table = optuna.create_study()
    table.add_trials([create_trial(value=0.0, params=each.params, distributions=each.distributions) for each in trials])
    return table


def _evaluated(table: optuna.Study, names: list[str], scores: np.ndarray, quantile: float) -> np.ndarray:
    """Return [P] importances of the parameters for these scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a target is to be minimized, and that trials are equal
        found = get_param_importances(
            table,
            evaluator=PedAnovaImportanceEvaluator(target_quantile=quantile),
            params=names,
            target=lambda trial: float(scores[trial.number]),
            normalize=False,
        )
    return np.array([found[name] for name in names])
