"""Figures that compare long runs: returns and losses over environment steps, from their histories."""

from __future__ import annotations

import html
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agents.callbacks.history_file import EPISODES, read_evaluations, read_history
from agents.errors import ConfigurationError, check_at_least
from agents.training.records import MOST_RECENT, n_recent_episodes
from finder.long_run.run_folder import RunFolder
from studies.figures.theme import LEGEND_BELOW, annotate_empty, line_of, new_figure, plain, rgba, rounded, shortened
from studies.reports.page import page_html, write_page
from studies.words import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_POINTS = 500
"""Largest number of points of a line; longer histories are thinned out evenly."""


class RunHistory(NamedTuple):
    """The data of one run in the figures.

    Attributes:
        label: Name of the run in the legend.
        steps: Environment steps at the ends of episodes, [n].
        returns: Mean return of the last `window` episodes, [n].
        loss_steps: Environment steps of the losses, [m].
        losses: Mean loss of the last `window` episodes with a finite loss, [m].
        evaluation_steps: Environment steps of evaluations, [k].
        evaluations: Mean returns of evaluations, [k].
        n_episodes: Total number of episodes.
        window: Number of episodes of the moving average.
    """

    label: str
    steps: list[int]
    returns: list[float]
    loss_steps: list[int]
    losses: list[float]
    evaluation_steps: list[int]
    evaluations: list[float]
    n_episodes: int
    window: int = MOST_RECENT

    def __repr__(self) -> str:
        return f"RunHistory({self.label!r}, {self.n_episodes:,} episodes, {len(self.evaluations):,} evaluations)"


class HistoriesData(NamedTuple):
    """The data of the figures.

    Attributes:
        runs: The runs, in the given order.
        window: Given number of episodes of the moving average; None if each run has its own (`RunHistory.window`).
    """

    runs: tuple[RunHistory, ...]
    window: int | None = None


def histories_data(
    places: str | PathLike[str] | Sequence[str | PathLike[str]], window: int | None = None
) -> HistoriesData:
    """Read the data for `plot_returns` and `plot_losses`.

    Args:
        places: Folders of runs or files `history.parquet`, one or a list.
        window: Number of episodes of the moving average, >= 1. Defaults to None: for each run, the episodes that ended
            in the last fifth of its environment steps, at least one for each copy of the environment, at most 100.

    Raises:
        ConfigurationError: A run has no history, is given twice, or the window is below 1.
    """
    if window is not None:
        check_at_least(1, window=window)
    given: Any = [places] if isinstance(places, str | PathLike) else places
    if not isinstance(given, Sequence) or not all(isinstance(place, str | PathLike) for place in given):
        raise ConfigurationError(
            f"runs is {places!r}: give the folder of a run or its file history.parquet, or a list of them. The curves "
            "of a study are drawn by studies.plot_learning_curves(study)."
        )
    paths = [Path(place) for place in given]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigurationError("A run is given twice: give each once.")
    names = [path.resolve().name for path in paths]
    labels = [str(path) if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]
    return HistoriesData(tuple(_run(path, label, window) for path, label in zip(paths, labels, strict=True)), window)


Runs = HistoriesData | str | PathLike[str] | Sequence[str | PathLike[str]]
"""Folders or files of one or several runs, or the result of `histories_data`."""


def plot_returns(runs: Runs, window: int | None = None) -> go.Figure:
    """Draw the returns of runs as lines, and their evaluations as points.

    Args:
        runs: Folders of runs or files `history.parquet`, one or a list; or the result of `histories_data`.
        window: Number of episodes of the moving average, for folders and files. Defaults to that of `histories_data`.

    Raises:
        ConfigurationError: See `histories_data`.
    """
    data = _data_of(runs, window)
    figure = new_figure("Returns", _STEPS, _title("return", data))
    if not any(run.steps for run in data.runs):
        return annotate_empty(figure, "No episode has ended yet.")
    _add_returns(figure, data)
    figure.update_xaxes(rangemode="tozero", tickformat="~s")
    return figure


def plot_losses(runs: Runs, window: int | None = None) -> go.Figure:
    """Draw the losses of runs as lines. Losses of different algorithms cannot be compared.

    Args:
        runs: See `plot_returns`.
        window: See `plot_returns`.

    Raises:
        ConfigurationError: See `histories_data`.
    """
    data = _data_of(runs, window)
    figure = new_figure("Losses", _STEPS, _title("loss", data))
    if not any(run.losses for run in data.runs):
        return annotate_empty(figure, "No episode has ended after an update yet.")
    _add_losses(figure, data)
    figure.update_xaxes(rangemode="tozero", tickformat="~s")
    return figure


def plot_runs(runs: Runs, window: int | None = None) -> go.Figure:
    """Draw returns and losses of runs, one below the other, over a common axis of environment steps.

    Args:
        runs: See `plot_returns`.
        window: See `plot_returns`.

    Raises:
        ConfigurationError: See `histories_data`.
    """
    data = _data_of(runs, window)
    if not any(run.steps and run.losses for run in data.runs):
        return plot_returns(data)
    figure = new_figure("Returns and losses", _STEPS, _title("return", data), height=680)
    _add_returns(figure, data)
    _add_losses(figure, data, yaxis="y2", showlegend=False)
    below = figure.layout.yaxis.to_plotly_json()
    below["title"] = {"text": _title("loss", data), "standoff": 10}
    n_entries = sum(1 + bool(run.evaluations) for run in data.runs)
    figure.update_layout(
        yaxis={"domain": [0.54, 1.0]},
        yaxis2={**below, "domain": [0.0, 0.46], "anchor": "x"},
        xaxis={"anchor": "y2", "rangemode": "tozero", "tickformat": "~s"},
        legend=LEGEND_BELOW,
        height=680 + 20 * n_entries,
        margin={"b": 70 + 20 * n_entries},
    )
    return figure


def write_histories(data: HistoriesData, path: str | PathLike[str]) -> Path:
    """Write returns and losses as one self-contained HTML file, and return its absolute path.

    Raises:
        StudyError: The file cannot be written.
    """
    figures = {"runs": plot_runs(data)}
    runs = ", ".join(f"{run.label} ({counted(run.n_episodes, 'episode')})" for run in data.runs)
    sections = [
        f"<h1>{counted(len(data.runs), 'run')}</h1>",
        f'<p class="sub">{html.escape(runs)}</p>',
        *(f'<div class="figure"><div id="{name}"></div></div>' for name in figures),
    ]
    return write_page(page_html("Finder runs", sections, figures), path, "plot")


def _data_of(runs: Runs, window: int | None) -> HistoriesData:
    if isinstance(runs, HistoriesData):
        return runs
    return histories_data(runs, window)


def _run(path: Path, label: str, given: int | None) -> RunHistory:
    history = read_history(path)
    evaluations = read_evaluations(path)
    steps = history["env_steps"].to_numpy()
    losses = history["loss"].to_numpy().astype(float)  # missing values become NaN
    known = np.isfinite(losses)
    copies = history["environment"].slice(max(0, len(steps) - MOST_RECENT)).to_pylist()
    window = given or max(1, n_recent_episodes(steps, copies, _env_steps(path, int(steps[-1]) if len(steps) else 0)))
    return RunHistory(
        label,
        *_line(steps, history["return"].to_numpy().astype(float), window),
        *_line(steps[known], losses[known], window),
        evaluations["env_steps"].to_pylist(),
        evaluations["mean_return"].to_pylist(),
        len(steps),
        window,
    )


def _env_steps(path: Path, last_end: int) -> int:
    """Return the environment steps of a run: those of its result, or else those at the end of its last episode."""
    folder = path.parent if path.name == EPISODES else path
    try:
        result = RunFolder.open(folder).result or {}
    except ConfigurationError:  # a history that a callback has written, without the folder of a run
        result = {}
    found = result.get("env_steps")
    return max(found, last_end) if isinstance(found, int) else last_end


def _line(steps: np.ndarray, values: np.ndarray, window: int) -> tuple[list[int], list[float]]:
    """Return steps and moving averages at the ends of episodes, over at most `window` values."""
    n = len(values)
    if n == 0:
        return [], []
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.unique(np.linspace(1, n, min(n, MAX_POINTS)).round().astype(int))
    begins = np.maximum(0, ends - window)
    return [int(step) for step in steps[ends - 1]], ((sums[ends] - sums[begins]) / (ends - begins)).tolist()


_STEPS = "environment steps"


def _title(what: str, data: HistoriesData) -> str:
    windows = sorted({run.window for run in data.runs if run.n_episodes} or {MOST_RECENT})
    if len(windows) > 1:
        return f"{what}<br>mean of the last {windows[0]} to {windows[-1]} episodes"
    return f"{what}<br>mean of the last {counted(windows[0], 'episode')}"


def _add_returns(figure: go.Figure, data: HistoriesData) -> None:
    for index, run in enumerate(data.runs):
        _add_line(figure, run.label, run.steps, run.returns, index)
        if run.evaluations:
            figure.add_scatter(
                x=run.evaluation_steps,
                y=rounded(run.evaluations),
                mode="markers",
                name=plain(f"{shortened(run.label, 36)}, evaluated"),
                marker={"color": rgba(line_of(index)["color"], 0.6), "size": 7, "symbol": "diamond"},
                hovertemplate=f"<b>{plain(run.label)}</b><br>%{{x:,}} steps, evaluated: %{{y:.4g}}<extra></extra>",
            )


def _add_losses(figure: go.Figure, data: HistoriesData, **where: Any) -> None:
    for index, run in enumerate(data.runs):
        _add_line(figure, run.label, run.loss_steps, run.losses, index, **where)


def _add_line(figure: go.Figure, label: str, steps: list[int], values: list[float], index: int, **where: Any) -> None:
    figure.add_scatter(
        x=steps,
        y=rounded(values),
        mode="lines" if len(steps) > 1 else "markers",
        name=plain(shortened(label, 46)),
        line=line_of(index),
        hovertemplate=f"<b>{plain(label)}</b><br>%{{x:,}} steps: %{{y:.4g}}<extra></extra>",
        **where,
    )
