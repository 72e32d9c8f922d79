"""A running trial as displays see it: how far it is, its latest values and its speed."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHARE_TO_JUDGE = 0.05
"""Share of the budget that a trial has to use before its speed is meaningful."""


_RECENT = 20
"""Number of episodes of each seed in the latest mean."""


@dataclass
class RunningTrial:
    """A running trial.

    Attributes:
        number: Number of the trial.
        params: Parameters of the trial.
        seeds: Seeds of the trial.
        budget: Budget of each seed, in environment steps or episodes.
        by_steps: Whether the budget is in environment steps.
        env_steps: Seed -> environment steps so far.
        steps_before: Seed -> environment steps that an interrupted run, or one that was paused, had made before.
        episodes: Seed -> episodes so far.
        recent: Seed -> returns (or losses) of its last episodes.
        latest_word: Word before the mean over seeds of their means.
        began: Time of its start.
        confirms: Number of the trial that is repeated on further seeds, or None.
        first: Time of its first episodes, and its share of the budget then.
        last: Time of its newest episodes, and its share of the budget then.
    """

    number: int
    params: Mapping[str, Any]
    seeds: tuple[int, ...]
    budget: int
    by_steps: bool
    began: float
    confirms: int | None = None
    latest_word: str = "lately"
    first: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    env_steps: dict[int, int] = field(default_factory=dict)
    steps_before: dict[int, int] = field(default_factory=dict)
    episodes: dict[int, int] = field(default_factory=dict)
    recent: dict[int, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_RECENT)))

    @property
    def share(self) -> float:
        """Used share of the budget, from 0 to 1."""
        used = self.env_steps if self.by_steps else self.episodes
        return min(1.0, sum(used.values()) / (self.budget * len(self.seeds)))

    @property
    def steps_made(self) -> int:
        """Environment steps over all seeds since the trial began, or was resumed."""
        return sum(self.env_steps.values()) - sum(self.steps_before.values())

    @property
    def work(self) -> float:
        """Used budget over all seeds."""
        return self.share * self.budget * len(self.seeds)

    @property
    def work_left(self) -> float:
        """Budget over all seeds that is left."""
        return (1 - self.share) * self.budget * len(self.seeds)

    def record(self, now: float) -> None:
        """Record the progress at a time."""
        self.last = (now, self.share)
        self.first = self.first or self.last

    def seconds_left(self, now: float) -> float | None:
        """Estimate of the remaining seconds from the speed since the first episodes; None before that."""
        if self.first is None or self.last is None:
            return None
        (first_at, first), (last_at, last) = self.first, self.last
        if last - first < SHARE_TO_JUDGE:
            return None
        return max(0.0, (1 - last) * (last_at - first_at) / (last - first) - (now - last_at))

    @property
    def mean_done(self) -> int:
        """Used budget, as the mean over the seeds."""
        used = self.env_steps if self.by_steps else self.episodes
        return round(sum(used.values()) / len(self.seeds))

    @property
    def latest(self) -> float | None:
        """Mean over seeds of the means of their last episodes, None without episodes.

        Seeds whose episodes are short have more of them, and count as much as others.
        """
        recent = [list(own) for own in list(self.recent.values())]  # copies: the display reads while the search writes
        return statistics.fmean(map(statistics.fmean, recent)) if recent else None
