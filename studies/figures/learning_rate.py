"""Learning-rate figure: value over rate, a line per optimizer, a band over seeds, the recommended trial marked."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
from optuna.trial import TrialState

from studies.analysis.recommendation import is_interval_known
from studies.errors import StudyError, nearest
from studies.figures.range_tests import RangeTest, plot_range_tests, range_tests_data
from studies.figures.ranking import LABEL_PARAMS, Ranking, group_label, ranking
from studies.figures.theme import (
    ACCENT,
    CONFIRMED_MARKER,
    QUIET,
    add_band,
    add_failed,
    annotate_empty,
    annotate_only_failed,
    annotate_rate,
    colors,
    confirmed_text,
    error_bars,
    explain_band,
    log_axis,
    new_figure,
    plain,
    rgba,
    rounded,
    shade_interval,
    value_title,
)
from studies.judging.confirmation import Verdict, verdict
from studies.judging.learning_rate_estimate import LearningRateEstimate
from studies.spaces.numbers import is_number
from studies.spaces.spaces import Fixed
from studies.spec.attributes import failure_kind, seed_values
from studies.study.study import OpenStudy, check_open
from studies.words import interval_text, number_text, over_seeds_text, rate_text, spread_text


class RatePoint(NamedTuple):
    """Trial in the figure: rate, mean, lowest and highest seed, spread, number of seeds and trial number."""

    rate: float
    mean: float
    low: float
    high: float
    spread: float
    n_seeds: int
    number: int


class ConfirmedPoint(NamedTuple):
    """Confirmed finalist: rate, value, 95% interval (NaN if unknown), number of seeds and trial number."""

    rate: float
    value: float
    low: float
    high: float
    n_seeds: int
    number: int


class StoppedPoint(NamedTuple):
    """Pruned or failed trial: rate, last value (NaN if none), number, reason, and kind of the failure."""

    rate: float
    value: float
    number: int
    reason: str
    failure: str = ""


class RateLine(NamedTuple):
    """Complete trials of one optimizer (or agent), ordered by rate."""

    label: str
    points: tuple[RatePoint, ...]


class LearningRateData(NamedTuple):
    """Data of the figure.

    Attributes:
        param: Name of the parameter.
        metric: `StudySpec.metric_text`.
        lines: Complete trials, a line per optimizer.
        pruned: Pruned trials.
        failed: Trials that raised or diverged.
        confirmed: Confirmed finalists, the recommended trial first.
        pick: Recommended trial, None if there is none or it has no such parameter.
        pick_label: Label of its line.
        connected: Whether the points of a line differ in the rate only, so that a line may join them.
        range_tests: Range tests, none in a study of whole trainings.
        finding: Estimate of the best rate, with all other parameters as in the recommended trial; None without one.
        is_interval_known: Whether its interval says anything.
    """

    param: str
    metric: str
    lines: tuple[RateLine, ...]
    pruned: tuple[StoppedPoint, ...]
    failed: tuple[StoppedPoint, ...]
    confirmed: tuple[ConfirmedPoint, ...]
    pick: RatePoint | None
    pick_label: str
    connected: bool
    range_tests: tuple[RangeTest, ...]
    finding: LearningRateEstimate | None
    is_interval_known: bool = False


def learning_rate_params(study: OpenStudy) -> list[str]:
    """Return the searched parameters that are learning rates: `learning_rate`, `actor.learning_rate`, ..."""
    check_open(study)
    return [
        name
        for name, space in study.spec.search_space().items()
        if name.rpartition(".")[2] == "learning_rate" and not isinstance(space, Fixed)
    ]


def learning_rate_data(study: OpenStudy, param: str | None = None) -> LearningRateData:
    """Return the data of `plot_learning_rate`.

    Args:
        study: The study.
        param: Learning rate to show. Defaults to `None`, the first of the study.

    Raises:
        StudyError: If the study did not search `param`.
    """
    searched = learning_rate_params(study)
    if param is not None and param not in searched:
        raise StudyError(f"the study {study.name!r} has no learning rate {param!r}. {nearest(param, searched)}")
    name = param or (searched[0] if searched else "learning_rate")
    facts = ranking(study)
    points: dict[str, list[RatePoint]] = defaultdict(list)
    pick, pick_label = None, ""
    for entry in facts.ranked:
        rate = _positive(entry.params.get(name))
        if rate is None:
            continue
        seeds = seed_values(facts.trials[entry.number]).values() or (entry.value,)
        point = RatePoint(rate, entry.value, min(seeds), max(seeds), entry.spread, entry.n_seeds, entry.number)
        label = group_label(dict(entry.params))
        points[label].append(point)
        if entry is facts.pick:
            pick, pick_label = point, label
    finding = facts.verdict.rate if pick is not None else None
    varied = {key for key, space in study.spec.search_space().items() if not isinstance(space, Fixed)}
    return LearningRateData(
        param=name,
        metric=study.spec.metric_text,
        lines=tuple(RateLine(label, tuple(sorted(points[label]))) for label in sorted(points)),
        pruned=_stopped(study, facts, name, TrialState.PRUNED),
        failed=_stopped(study, facts, name, TrialState.FAIL),
        confirmed=tuple(
            ConfirmedPoint(rate, further.value, further.low, further.high, further.n_seeds, each.number)
            for each in facts.verdict.confirmed
            if (rate := _positive(each.tuning.params.get(name))) is not None and (further := each.held_out)
        ),
        pick=pick,
        pick_label=pick_label,
        connected=varied <= {name, *LABEL_PARAMS},
        range_tests=range_tests_data(study),
        finding=finding,
        is_interval_known=finding is not None and is_interval_known(finding, _lower_end(facts.verdict)),
    )


def plot_learning_rate(study: OpenStudy, param: str | None = None) -> go.Figure:
    """Plot the value over the learning rate.

    Each complete trial is a point at its mean over seeds, with a band over its seeds; pruned trials are hollow, at
    their last value; failed ones, which have no value, are crosses below. A study of range tests shows their curves and
    suggestions.

    Args:
        study: The study.
        param: Learning rate to show. Defaults to `None`, the first of the study.

    Raises:
        StudyError: If the study did not search `param`.
    """
    data = learning_rate_data(study, param)
    if data.range_tests and not data.lines:
        return plot_range_tests(data.range_tests)
    y_title = value_title(data.metric, len(study.spec.seeds), minimize=study.direction == "minimize")
    figure = new_figure("Learning rate", f"{data.param.replace('_', ' ')} (log scale)", y_title)
    rates = [point.rate for line in data.lines for point in line.points]
    rates += [point.rate for point in (*data.pruned, *data.failed)]
    if not rates:
        return annotate_empty(figure, "No trial with a searched learning rate has ended yet.")
    palette = colors([line.label for line in data.lines])
    for line in data.lines:
        _add_line(figure, line, palette[line.label], data.connected)
    _add_stopped(figure, data)
    if data.confirmed:
        _add_confirmed(figure, data.confirmed, confirmed_text(study.spec, verdict(study)))
    if data.pick is not None:
        _mark_pick(figure, data.pick, data.pick_label, rates)
    if data.finding is not None and data.finding.name == data.param:
        _mark_interval(figure, data.finding, is_known=data.is_interval_known)
    if any(point.n_seeds > 1 for line in data.lines for point in line.points):
        explain_band(figure, "band" if data.connected else "bar")
    figure.update_xaxes(**log_axis(rates))
    return figure


def _add_line(figure: go.Figure, line: RateLine, color: str, connected: bool) -> None:
    rates = [point.rate for point in line.points]
    means, lows, highs = ([getattr(point, field) for point in line.points] for field in ("mean", "low", "high"))
    name = plain(line.label) or over_seeds_text(max(point.n_seeds for point in line.points))
    bars: dict[str, Any] = {}
    if connected and len(rates) > 1:
        add_band(figure, rates, lows, highs, group=name, color=rgba(color, 0.16))
    else:
        bars["error_y"] = error_bars(means, lows, highs, color=rgba(color, 0.5), thickness=1.5, width=3)
    figure.add_scatter(
        x=rates,
        y=rounded(means),
        mode="lines+markers" if connected else "markers",
        name=name,
        legendgroup=name,
        line={"color": color, "width": 2.5},
        marker={"color": color, "size": 8},
        text=[
            f"trial #{point.number}<br>learning rate {rate_text(point.rate)}<br>"
            f"{spread_text(point.mean, point.spread)}, {over_seeds_text(point.n_seeds)}<br>"
            f"seeds {number_text(point.low)} to {number_text(point.high)}"
            for point in line.points
        ],
        hovertemplate=f"<b>{name}</b><br>%{{text}}<extra></extra>",
        **bars,
    )


def _add_stopped(figure: go.Figure, data: LearningRateData) -> None:
    pruned = [point for point in data.pruned if not math.isnan(point.value)]
    if pruned:
        figure.add_scatter(
            x=[point.rate for point in pruned],
            y=rounded([point.value for point in pruned]),
            mode="markers",
            name="pruned (value when stopped)",
            marker={"symbol": "circle-open", "size": 8, "color": QUIET, "line": {"width": 1.5}},
            text=[
                f"trial #{p.number}<br>learning rate {rate_text(p.rate)}<br>stopped at {number_text(p.value)}"
                for p in pruned
            ],
            hovertemplate="<b>pruned</b><br>%{text}<extra></extra>",
        )
    failed = [
        f"trial #{point.number}<br>learning rate {rate_text(point.rate)}<br>{plain(point.reason[:120])}"
        for point in data.failed
    ]
    add_failed(figure, [point.rate for point in data.failed], failed, [point.failure for point in data.failed])
    if not data.lines and not pruned:
        annotate_only_failed(figure)


def _add_confirmed(figure: go.Figure, points: Sequence[ConfirmedPoint], name: str) -> None:
    """Draw values on further seeds as open diamonds, with their 95% intervals as bars."""
    values, lows, highs = ([getattr(point, field) for point in points] for field in ("value", "low", "high"))
    figure.add_scatter(
        x=[point.rate for point in points],
        y=rounded(values),
        mode="markers",
        name=name,
        marker=CONFIRMED_MARKER,
        error_y=error_bars(values, lows, highs, color=CONFIRMED_MARKER["color"], thickness=1.5, width=4),
        text=[_confirmed_text(point) for point in points],
        hovertemplate="<b>on further seeds</b><br>%{text}<extra></extra>",
    )


def _confirmed_text(point: ConfirmedPoint) -> str:
    expected = interval_text(point.low, point.high)
    return (
        f"trial #{point.number}<br>learning rate {rate_text(point.rate)}<br>"
        f"{number_text(point.value)}, {over_seeds_text(point.n_seeds)}"
        + (f"<br>95% interval {expected}" if expected else "")
    )


def _mark_pick(figure: go.Figure, pick: RatePoint, label: str, rates: list[float]) -> None:
    figure.add_vline(x=pick.rate, line={"color": ACCENT, "width": 1.5, "dash": "dot"})
    figure.add_scatter(
        x=[pick.rate],
        y=rounded([pick.mean]),
        mode="markers",
        name="the pick, in the search",
        marker={"symbol": "star", "size": 16, "color": ACCENT, "line": {"color": "#ffffff", "width": 1}},
        hoverinfo="skip",
    )
    annotate_rate(figure, pick.rate, f"pick: {label + ' at ' if label else ''}{rate_text(pick.rate)}", rates)


def _lower_end(found: Verdict) -> float:
    """Return the lower end of the interval of the pick's value, on the seeds by which it is reported."""
    judged = found.pick if found.confirmation is None else found.confirmation.held_out
    return math.nan if judged is None else judged.low


def _mark_interval(figure: go.Figure, finding: LearningRateEstimate, *, is_known: bool) -> None:
    """Shade the interval of the best rate if it is known, for the long run if the study has a horizon."""
    whose = f" for {finding.horizon:,} steps" if finding.is_of_horizon else ""
    if is_known:
        shade_interval(figure, finding.low, finding.high)
        square = {"symbol": "square", "size": 12, "color": rgba(ACCENT, 0.15)}
        name = f"95%: the best rate{whose}"
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=square)
    if finding.corrected:
        line = {"color": ACCENT, "width": 1.5, "dash": "dash"}
        figure.add_vline(x=finding.suggested, line=line)
        name = f"{rate_text(finding.suggested)}{whose}"
        figure.add_scatter(x=[None], y=[None], mode="lines", name=name, line=line)


def _stopped(study: OpenStudy, facts: Ranking, name: str, state: TrialState) -> tuple[StoppedPoint, ...]:
    points = []
    for trial in facts.trials.values():
        rate = _positive(trial.params.get(name))
        if trial.state == state and rate is not None:
            value = trial.value if trial.value is not None else math.nan
            reason = str(trial.user_attrs.get("reason", ""))
            points.append(StoppedPoint(rate, value, trial.number, reason, failure_kind(trial) or ""))
    return tuple(points)


def _positive(value: Any) -> float | None:
    if not is_number(value) or not value > 0 or not math.isfinite(value):
        return None
    return float(value)
