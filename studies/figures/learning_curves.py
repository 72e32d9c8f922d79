"""Learning curves: return (or loss) over environment steps, the best trials with a band over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import plotly.graph_objects as go
from optuna.trial import FrozenTrial, TrialState

from studies.analysis.schedules import shown_params
from studies.figures.ranking import Ranking, ranking, trial_label
from studies.figures.theme import (
    ACCENT,
    LEGEND_BELOW,
    PALETTE,
    QUIET,
    add_band,
    annotate_empty,
    explain_band,
    new_figure,
    plain,
    rgba,
    rounded,
    shortened,
)
from studies.spaces.spaces import Json
from studies.spec.attributes import state_word
from studies.study.study import OpenStudy, check_open
from studies.words import counted, number_text

if TYPE_CHECKING:
    from studies.database.records import EpisodeRecord
    from studies.spec.spec import StudySpec

MAX_POINTS = 200
"""Points of a curve, more than a screen can show."""

_WINDOW = 0.05
_MAX_QUIET = 60
_QUIET_POINTS = 40


class Curve(NamedTuple):
    """Learning curve of a trial.

    Attributes:
        number: Number of the trial.
        label: Label in the legend.
        steps: Environment steps of each point, [n].
        mean: Mean over seeds, [n].
        low: Lowest seed, [n]; the mean if seeds were not recorded separately.
        high: Highest seed, [n].
        n_seeds: Number of seeds.
    """

    number: int
    label: str
    steps: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    n_seeds: int


class LearningCurvesData(NamedTuple):
    """Data of the figure.

    Attributes:
        metric: What the curves show: the loss if the metric of the study is the loss, else the return.
        curves: The pick, then the others, best first, from all their episodes; then pruned, running and failed ones.
        others: The other trials, as thin lines from their intermediate values.
        pick: Number of the recommended trial, None if there is none.
        n_others: Number of the other trials, also of those without a line.
    """

    metric: str
    curves: tuple[Curve, ...]
    others: tuple[Curve, ...]
    pick: int | None
    n_others: int


def learning_curves_data(study: OpenStudy, max_curves: int = 6) -> LearningCurvesData:
    """Return the data of `plot_learning_curves`.

    Args:
        study: The study.
        max_curves: Number of trials that are shown in full: the pick, then the best others. Defaults to `6`.
    """
    check_open(study)
    facts = ranking(study)
    order = [entry.number for entry in sorted(facts.ranked, key=lambda entry: entry is not facts.pick)]
    # Trials that did not end well come last, where no better one takes their place.
    for state in (TrialState.PRUNED, TrialState.RUNNING, TrialState.FAIL):
        others_of = [trial for trial in facts.trials.values() if trial.state == state]
        order += [trial.number for trial in sorted(others_of, key=lambda trial: -(trial.last_step or 0))]
    curves: list[Curve] = []
    others: list[Curve] = []
    alike = _alike([study.params(facts.trials[number]) for number in order[:max_curves]])
    for number in order:
        trial = facts.trials[number]
        if len(curves) < max_curves:
            curve = _full_curve(study, trial, _label(study, facts, number, alike))
            if curve is not None:
                curves.append(curve)
        elif len(others) < _MAX_QUIET and trial.intermediate_values and _reports_what_is_shown(study.spec):
            others.append(_reported_curve(trial, _label(study, facts, number), _QUIET_POINTS))
    pick = None if facts.pick is None else facts.pick.number
    n_others = len(order) - len({curve.number for curve in curves})
    return LearningCurvesData(_shown(study.spec), tuple(curves), tuple(others), pick, n_others)


def plot_learning_curves(study: OpenStudy, max_curves: int = 6) -> go.Figure:
    """Plot learning curves: the recommended trial in front, the next best in colour, all others as thin grey lines.

    A point is the mean over the episodes that ended in the 5% of the budget before it, then over seeds; the band covers
    all seeds.

    Args:
        study: The study.
        max_curves: Number of trials that are shown in full: the pick, then the best others. Defaults to `6`.
    """
    data = learning_curves_data(study, max_curves)
    over = "mean over seeds" if len(study.spec.seeds) > 1 else "one seed"
    figure = new_figure("Learning curves", "environment steps", f"{data.metric} in the search<br>{over}")
    if not data.curves and not data.others:
        return annotate_empty(figure, "No trial has ended an episode yet.")
    for index, curve in enumerate(data.others):
        figure.add_scatter(
            x=curve.steps,
            y=rounded(curve.mean),
            mode="lines",
            name=_others_text(data),
            legendgroup="others",
            showlegend=index == 0,
            line={"color": rgba(QUIET, 0.45), "width": 1},
            hovertemplate=f"{plain(curve.label)}<br>%{{x:,}} steps: %{{y:.4g}}<extra></extra>",
        )
    if not data.others and data.n_others:  # their intermediate values are of another metric
        figure.layout.title.text += f" ({len(data.curves)} of {counted(len(data.curves) + data.n_others, 'trial')})"
    has_pick = data.pick is not None
    # The last trace is on top: the recommended trial must not be hidden.
    for index, curve in reversed(list(enumerate(data.curves))):
        is_pick = curve.number == data.pick
        _add_curve(figure, curve, ACCENT if is_pick else PALETTE[(index - has_pick) % len(PALETTE)], is_pick)
    with_band = any(curve.n_seeds > 1 for curve in data.curves)
    if with_band:
        explain_band(figure)
    n_entries = len(data.curves) + bool(data.others) + with_band
    legend = {**LEGEND_BELOW, "traceorder": "reversed"}
    figure.update_layout(legend=legend, height=56 + 300 + 80 + 20 * n_entries, margin={"b": 80 + 20 * n_entries})
    figure.update_xaxes(rangemode="tozero", tickformat="~s")
    return figure


def _add_curve(figure: go.Figure, curve: Curve, color: str, is_pick: bool) -> None:
    group = f"trial-{curve.number}"
    if curve.n_seeds > 1:
        fill = rgba(color, 0.2 if is_pick else 0.1)
        add_band(figure, curve.steps, curve.low, curve.high, group=group, color=fill)
    figure.add_scatter(
        x=curve.steps,
        y=rounded(curve.mean),
        mode="lines",
        name=plain(f"{shortened(curve.label, 36)} (the pick)" if is_pick else shortened(curve.label, 46)),
        legendgroup=group,
        line={"color": color, "width": 3 if is_pick else 1.75},
        text=[f"{number_text(low)} to {number_text(high)}" for low, high in zip(curve.low, curve.high, strict=True)],
        hovertemplate=f"<b>{plain(curve.label)}</b><br>%{{x:,}} steps: %{{y:.4g}}<br>seeds %{{text}}<extra></extra>",
    )


def _reports_what_is_shown(spec: StudySpec) -> bool:
    """Return whether intermediate values are of what the curves show; those of other metrics are not."""
    return spec.metric in ("return", "loss")


def _others_text(data: LearningCurvesData) -> str:
    """Return the number of lines of other trials, and of these if there are more: `60 of 994 other trials`."""
    n = len(data.others)
    return counted(n, "other trial") if n == data.n_others else f"{n} of {counted(data.n_others, 'other trial')}"


def _shown(spec: StudySpec) -> str:
    """Return what the curves show: losses if the study is judged by them, else returns."""
    return spec.metric_text if spec.metric == "loss" else "return"


def _full_curve(study: OpenStudy, trial: FrozenTrial, label: str) -> Curve | None:
    episodes = study.storage.episodes.curve(study.episodes_key, trial.number)
    by_seed: dict[int, list[EpisodeRecord]] = defaultdict(list)
    for episode in episodes:
        value = episode.loss if study.spec.metric == "loss" else episode.episode_return
        if value is not None and np.isfinite(value):
            by_seed[episode.seed].append(episode)
    reported = trial.intermediate_values and _reports_what_is_shown(study.spec)
    if not by_seed:
        return _reported_curve(trial, label, MAX_POINTS) if reported else None
    # Seeds end at slightly different steps; the curve ends with the shortest, so that its mean is over all of them.
    end = min(max(episode.env_steps for episode in seed) for seed in by_seed.values())
    start = max(min(episode.env_steps for episode in seed) for seed in by_seed.values())
    if start > end:
        return _reported_curve(trial, label, MAX_POINTS) if reported else None
    grid = np.unique(np.linspace(start, end, MAX_POINTS).round())
    width = _WINDOW * (study.spec.env_steps or end)
    table = np.stack([_smoothed(seed, grid, width, study.spec.metric) for seed in by_seed.values()])  # [S, n]
    return Curve(
        trial.number,
        label,
        [int(step) for step in grid],
        table.mean(axis=0).tolist(),
        table.min(axis=0).tolist(),
        table.max(axis=0).tolist(),
        len(by_seed),
    )


def _smoothed(episodes: list[EpisodeRecord], grid: np.ndarray, width: float, metric: str) -> np.ndarray:
    """Return for each grid point the mean of the episodes that ended in the `width` steps before it, [n].

    The grid starts at or after the end of the first episode.
    """
    ordered = sorted(episodes, key=lambda episode: episode.env_steps)
    steps = np.array([episode.env_steps for episode in ordered], dtype=float)
    values = np.array(
        [episode.loss if metric == "loss" else episode.episode_return for episode in ordered], dtype=float
    )
    sums = np.concatenate([[0.0], np.cumsum(values)])
    upper = np.searchsorted(steps, grid, side="right")
    lower = np.searchsorted(steps, grid - width, side="right")
    # A window without an episode (shorter than episodes) uses the last episode before it.
    lower = np.where(lower == upper, upper - 1, lower)
    return np.asarray((sums[upper] - sums[lower]) / (upper - lower))


def _reported_curve(trial: FrozenTrial, label: str, max_points: int) -> Curve:
    steps = sorted(trial.intermediate_values)
    chosen = [steps[index] for index in np.unique(np.linspace(0, len(steps) - 1, max_points).round().astype(int))]
    values = [trial.intermediate_values[step] for step in chosen]
    return Curve(trial.number, label, [float(step) for step in chosen], values, values, values, 1)


def _alike(rows: Sequence[Mapping[str, Json]]) -> set[str]:
    """Return the parameters that are equal in all of several trials, which labels can leave out."""
    if len(rows) < 2:
        return set()
    return {name for name, value in rows[0].items() if all(name in row and row[name] == value for row in rows[1:])}


def _label(study: OpenStudy, facts: Ranking, number: int, left_out: Collection[str] = ()) -> str:
    trial = facts.trials[number]
    word = state_word(trial)
    shown = shown_params(study.params(trial), facts.lineages.get(number))
    shown = {name: value for name, value in shown.items() if name not in left_out} or shown
    return trial_label(number, shown) + ("" if word in ("complete", "waiting") else f" ({word})")
