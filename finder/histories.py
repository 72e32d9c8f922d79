"""Several long runs side by side: returns and losses over environment steps, from their histories."""

from __future__ import annotations

import html
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agents.errors import ConfigurationError
from agents.history_file import read_evaluations, read_history
from studies.reports.page import page_html, write_page
from studies.reports.theme import PALETTE, faded, new_figure, plain, rounded, say_empty
from studies.words import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_POINTS = 500
"""Points of a line; of longer histories, so many evenly in their order."""


class RunHistory(NamedTuple):
    """One run, as far as it is drawn.

    Attributes:
        label: Its name in the legend.
        steps: Environment steps at the ends of episodes, [n].
        returns: Mean return of the last `window` episodes by then, [n].
        loss_steps: Environment steps of the losses, [m].
        losses: Mean loss of the last `window` episodes that had a finite one, [m].
        evaluation_steps: Environment steps of evaluations, [k].
        evaluations: Their mean returns, [k].
        n_episodes: How many episodes there are in all.
    """

    label: str
    steps: list[int]
    returns: list[float]
    loss_steps: list[int]
    losses: list[float]
    evaluation_steps: list[int]
    evaluations: list[float]
    n_episodes: int


class HistoriesData(NamedTuple):
    """What the figures show.

    Attributes:
        runs: The runs, in the order in which they were given.
        window: Episodes that each point is the mean of.
    """

    runs: tuple[RunHistory, ...]
    window: int


def histories_data(places: Sequence[str | PathLike[str]], window: int = 100) -> HistoriesData:
    """Returns what `plot_returns` and `plot_losses` draw.

    Args:
        places: Folders of runs, or files `history.parquet`.
        window: Episodes that each point is the mean of, >= 1; at the beginning, of those that there are.

    Raises:
        ConfigurationError: A run has no history, is given twice, or the window is below 1.
    """
    if window < 1:
        raise ConfigurationError(f"window must be >= 1, got {window}.")
    paths = [Path(place) for place in places]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigurationError("A run is given twice: give each once.")
    names = [path.resolve().name for path in paths]
    labels = [str(path) if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]
    return HistoriesData(tuple(_run(path, label, window) for path, label in zip(paths, labels, strict=True)), window)


def plot_returns(data: HistoriesData) -> go.Figure:
    """Draws the returns of all runs, a line each, and their evaluations as points."""
    title = f"return, mean of the last {counted(data.window, 'episode')}"
    figure = new_figure("Returns", "environment steps", title)
    if not any(run.steps for run in data.runs):
        return say_empty(figure, "No episode has ended yet.")
    for index, run in enumerate(data.runs):
        color = PALETTE[index % len(PALETTE)]
        _add_line(figure, run.label, run.steps, run.returns, color)
        if run.evaluations:
            figure.add_scatter(
                x=run.evaluation_steps,
                y=rounded(run.evaluations),
                mode="markers",
                name=plain(f"{run.label}, evaluated"),
                marker={"color": faded(color, 0.6), "size": 7, "symbol": "diamond"},
                hovertemplate=f"<b>{plain(run.label)}</b><br>%{{x:,}} steps, evaluated: %{{y:.4g}}<extra></extra>",
            )
    figure.update_xaxes(rangemode="tozero", tickformat="~s")
    return figure


def plot_losses(data: HistoriesData) -> go.Figure:
    """Draws the losses of all runs, a line each. Losses of different algorithms are no measure of each other."""
    title = f"loss, mean of the last {counted(data.window, 'episode')}"
    figure = new_figure("Losses", "environment steps", title)
    if not any(run.losses for run in data.runs):
        return say_empty(figure, "No episode has ended after an update yet.")
    for index, run in enumerate(data.runs):
        _add_line(figure, run.label, run.loss_steps, run.losses, PALETTE[index % len(PALETTE)])
    figure.update_xaxes(rangemode="tozero", tickformat="~s")
    return figure


def write_histories(data: HistoriesData, path: str | PathLike[str]) -> Path:
    """Writes both figures as one HTML file that needs nothing else, and returns its absolute path.

    Raises:
        StudyError: The file cannot be written.
    """
    figures = {"returns": plot_returns(data), "losses": plot_losses(data)}
    runs = ", ".join(f"{run.label} ({counted(run.n_episodes, 'episode')})" for run in data.runs)
    sections = [
        f"<h1>{counted(len(data.runs), 'run')}</h1>",
        f'<p class="sub">{html.escape(runs)}</p>',
        *(f'<div class="figure"><div id="{name}"></div></div>' for name in figures),
    ]
    return write_page(page_html("Finder runs", sections, figures), path, "plot")


def _run(path: Path, label: str, window: int) -> RunHistory:
    history = read_history(path)
    evaluations = read_evaluations(path)
    steps = history["env_steps"].to_numpy()
    losses = history["loss"].to_numpy().astype(float)  # what is missing becomes NaN
    known = np.isfinite(losses)
    return RunHistory(
        label,
        *_line(steps, history["return"].to_numpy().astype(float), window),
        *_line(steps[known], losses[known], window),
        evaluations["env_steps"].to_pylist(),
        evaluations["mean_return"].to_pylist(),
        len(steps),
    )


def _line(steps: np.ndarray, values: np.ndarray, window: int) -> tuple[list[int], list[float]]:
    """Running means at the ends of episodes: of the last `window` values, or of as many as there are by then."""
    n = len(values)
    if n == 0:
        return [], []
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.unique(np.linspace(1, n, min(n, MAX_POINTS)).round().astype(int))
    begins = np.maximum(0, ends - window)
    return [int(step) for step in steps[ends - 1]], ((sums[ends] - sums[begins]) / (ends - begins)).tolist()


def _add_line(figure: go.Figure, label: str, steps: list[int], values: list[float], color: str) -> None:
    figure.add_scatter(
        x=steps,
        y=rounded(values),
        mode="lines" if len(steps) > 1 else "markers",
        name=plain(label),
        line={"color": color, "width": 2},
        hovertemplate=f"<b>{plain(label)}</b><br>%{{x:,}} steps: %{{y:.4g}}<extra></extra>",
    )
