"""Records of a training that callbacks receive and runs keep: episodes, evaluations, and the history of both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from agents.errors import ConfigurationError


class Episode(NamedTuple):
    """One episode that has ended.

    Attributes:
        index: 0, 1, 2, ... in the order in which episodes of this run ended.
        env_steps: Environment steps of the whole run when it ended.
        episode_return: Sum of the environment's rewards.
        length: Its steps.
        loss: Loss of the newest update when it ended; None before the first.
        wall_seconds: Seconds since training began.
        environment: Which of the run's copies of the environment.
        member: Which member of a population; 0 for a single agent.
        custom_metrics: Numbers that callbacks measured of it, by name.
        user_data: Notes of callbacks while it ran; empty when all callbacks have been called for its end.
    """

    index: int  # type: ignore[assignment]  # it hides tuple.index
    env_steps: int
    episode_return: float
    length: int
    loss: float | None
    wall_seconds: float
    environment: int
    member: int
    custom_metrics: dict[str, float]
    user_data: dict[str, Any]


class Evaluation(NamedTuple):
    """Returns of an agent at one moment of its training; see `agents.Evaluate`.

    Attributes:
        env_steps: Environment steps of training by then.
        n_training_episodes: Episodes of training that had ended by then.
        mean_return: Mean return of the episodes that were played.
        std_return: Their sample standard deviation; NaN of a single episode.
        min_return: Their lowest return.
        max_return: Their highest return.
        n_episodes: How many episodes were played.
        is_best: Whether the mean is above those of all evaluations before it.
        metrics: Further numbers of a user's evaluation function, by name.
        n_cut: Episodes that were truncated at the evaluation's limit of steps; these are among `n_episodes`.
    """

    env_steps: int
    n_training_episodes: int
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    n_episodes: int
    is_best: bool
    metrics: dict[str, float]
    n_cut: int = 0


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
        """Append one episode."""
        self.episodes.append(episode)
        self.returns.append(episode.episode_return)

    def mean_return(self, last: int = 100) -> float:
        """Mean return of the last episodes; NaN before the first."""
        return float(np.mean(self.returns[-last:])) if self.returns else float("nan")

    def custom_metrics(self, last: int = 100) -> dict[str, MetricSummary]:
        """What callbacks measured of the last episodes, by name; see `summaries`."""
        return summaries(self.episodes[-last:])
