"""Records of a training that callbacks receive and runs keep: episodes, evaluations, and the history of both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from agents.errors import ConfigurationError


class Episode(NamedTuple):
    """One episode that has ended."""

    # 0, 1, 2, ... in the order in which episodes of this run ended. (It hides tuple.index, which nobody misses.)
    index: int  # type: ignore[assignment]
    env_steps: int  # environment steps of the whole run when it ended
    episode_return: float  # sum of the environment's rewards
    length: int  # steps
    loss: float | None  # loss of the newest update when it ended; None before the first
    wall_seconds: float  # since training began
    environment: int  # which of its copies of the environment
    member: int  # which member of a population; 0 for an agent alone
    custom_metrics: dict[str, float]  # what callbacks measured of it, by name
    user_data: dict[str, Any]  # what callbacks noted while it ran; empty when all were told that it has ended


class Evaluation(NamedTuple):
    """How good the agent was at one moment of its training; see `agents.Evaluate`."""

    env_steps: int  # environment steps of training by then
    n_training_episodes: int  # episodes of training that had ended by then
    mean_return: float
    std_return: float  # sample standard deviation; NaN of a single episode
    min_return: float
    max_return: float
    n_episodes: int  # episodes that were played for it
    is_best: bool  # its mean is above those of all evaluations before it
    metrics: dict[str, float]  # what else a function of the user's told
    n_cut: int = 0  # episodes that were cut after the evaluation's limit of steps; these are among `n_episodes`


class MetricSummary(NamedTuple):
    """A custom metric over several episodes."""

    mean: float
    min: float
    max: float
    n_episodes: int  # that had it


def metrics_of(episode: Episode) -> dict[str, float]:
    """The custom metrics of an episode.

    Raises:
        ConfigurationError: One is no number; names it. The episode is without it from then on, so that a training which
            was kept because of that goes on.
    """
    given: dict[str, Any] = dict(episode.custom_metrics)
    for name, value in given.items():
        if not isinstance(value, SupportsFloat):
            del episode.custom_metrics[name]
            raise ConfigurationError(f"custom_metrics[{name!r}] of an episode is {value!r}: give numbers.")
    return {str(name): float(value) for name, value in given.items()}


def summaries(episodes: Iterable[Episode]) -> dict[str, MetricSummary]:
    """Mean, minimum and maximum of custom metrics, by name, over the episodes that have them as finite numbers."""
    values: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in metrics_of(episode).items():
            if math.isfinite(value):
                values.setdefault(name, []).append(value)
    return {
        name: MetricSummary(sum(own) / len(own), min(own), max(own), len(own)) for name, own in sorted(values.items())
    }


@dataclass(repr=False)
class History:
    """Every episode of a run, in the order in which they ended, and the evaluations between them."""

    episodes: list[Episode] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)

    def __repr__(self) -> str:
        lately = f", mean return {self.mean_return():.1f} of the last {min(100, len(self.returns))}"
        evaluated = f", {len(self.evaluations):,} evaluations" if self.evaluations else ""
        return f"History({len(self.episodes):,} episodes{lately if self.returns else ''}{evaluated})"

    def add(self, episode: Episode) -> None:
        """Appends one episode."""
        self.episodes.append(episode)
        self.returns.append(episode.episode_return)

    def mean_return(self, last: int = 100) -> float:
        """Mean return of the last episodes; NaN before the first."""
        return float(np.mean(self.returns[-last:])) if self.returns else float("nan")

    def custom_metrics(self, last: int = 100) -> dict[str, MetricSummary]:
        """What callbacks measured of the last episodes, by name; see `summaries`."""
        return summaries(self.episodes[-last:])
