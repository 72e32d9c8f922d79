"""Records of a training that callbacks receive and runs keep: episodes, evaluations, and the history of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from agents.errors import ConfigurationError


class Episode(NamedTuple):
    """One complete episode.

    Attributes:
        index: 0, 1, 2, ... in the order in which episodes of this run ended.
        env_steps: Environment steps of the complete run at the end of the episode.
        episode_return: Sum of the environment's rewards.
        length: Number of steps.
        loss: Loss of the newest update at the end of the episode; None before the first update.
        wall_seconds: Seconds since training began.
        environment: Index of the environment in the run.
        member: Member of a population; 0 for a single agent.
        custom_metrics: Numbers that callbacks recorded for the episode, by name.
        user_data: Notes of callbacks during the episode; emptied after the callbacks of its end.
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
        env_steps: Environment steps of training so far.
        n_training_episodes: Complete episodes of training so far.
        mean_return: Mean return of the episodes of the evaluation.
        std_return: Sample standard deviation of their returns; NaN for a single episode.
        min_return: Their lowest return.
        max_return: Their highest return.
        n_episodes: Number of episodes in the evaluation.
        is_best: Whether the mean is above those of all earlier evaluations.
        metrics: Further numbers of a user's evaluation function, by name.
        n_cut: Number of episodes that were truncated at the evaluation's limit of steps, out of `n_episodes`.
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
    """Summary of a custom metric over several episodes."""

    mean: float
    min: float
    max: float
    n_episodes: int  # with this metric


def metrics_of(episode: Episode) -> dict[str, float]:
    """Return the custom metrics of an episode.

    Raises:
        ConfigurationError: A metric is not a number; the message names it. The metric is removed from the episode, so
            that a saved training can be resumed.
    """
    given: dict[str, Any] = dict(episode.custom_metrics)
    numbers = {}
    for name, value in given.items():
        try:
            if not isinstance(value, SupportsFloat):
                raise TypeError
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):  # arrays have `__float__`, whatever their size
            del episode.custom_metrics[name]
            raise ConfigurationError(f"custom_metrics[{name!r}] of an episode is {value!r}: give numbers.") from None
    return numbers


def summaries(episodes: Iterable[Episode]) -> dict[str, MetricSummary]:
    """Return mean, minimum and maximum of custom metrics, by name, over the episodes with finite values."""
    values: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in metrics_of(episode).items():
            if math.isfinite(value):
                values.setdefault(name, []).append(value)
    return {
        name: MetricSummary(sum(own) / len(own), min(own), max(own), len(own)) for name, own in sorted(values.items())
    }


LAST_PART = 0.2
"""Last part of the environment steps so far, whose episodes tell what the agent is worth now."""

MOST_RECENT = 100
"""Largest number of episodes that are averaged for what the agent is worth now."""


def n_recent_episodes(ends: Sequence[int], environments: Sequence[int], env_steps: int) -> int:
    """Return the number of newest episodes whose mean tells what the agent is worth now.

    These are the episodes that ended in the last fifth of the environment steps so far, as in the value of a run in a
    study; at least one for each copy of the environment, and at most 100. A fixed number would be the whole training
    where episodes are long.

    Args:
        ends: Environment steps at the end of each episode, [n], ascending; the last 100 suffice.
        environments: Index of the environment of each episode, [n].
        env_steps: Environment steps of the training so far.
    """
    begin = env_steps - LAST_PART * env_steps
    n_last = sum(end > begin for end in ends[-MOST_RECENT:])
    return min(len(ends), MOST_RECENT, max(n_last, len(set(environments[-MOST_RECENT:]))))


@dataclass(repr=False)
class History:
    """All episodes of a run, in the order in which they ended, and the evaluations in between."""

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

    def n_recent(self, env_steps: int) -> int:
        """Return the number of newest episodes that tell what the agent is worth now; see `n_recent_episodes`."""
        newest = self.episodes[-MOST_RECENT:]
        return n_recent_episodes([each.env_steps for each in newest], [each.environment for each in newest], env_steps)

    def mean_return(self, last: int = 100) -> float:
        """Return the mean return of the last episodes; NaN before the first."""
        return float(np.mean(self.returns[-last:])) if self.returns else float("nan")

    def custom_metrics(self, last: int = 100) -> dict[str, MetricSummary]:
        """Return summaries of the custom metrics of the last episodes, by name; see `summaries`."""
        return summaries(self.episodes[-last:])
