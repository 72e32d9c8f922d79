"""What a search policy is.

A policy is a generator. It yields rounds, is sent what the runs of the round were worth, and returns its decision::

    def policy(problem, rng):
        values = yield Round(runs={(0, 0), (1, 0)}, mark=3)
        return Decision(pick=max((0, 1), key=lambda config: values[config, 0]))

So a policy knows nothing of training. It is replayed over a table of finished runs in milliseconds
(`studies.policies.replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from studies.analysis.learning_rate_estimate import LearningRateEstimate

Values = Mapping[tuple[int, int], float]
"""(config, seed), each by position -> value at the mark of the round; higher is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is to be searched.

    Attributes:
        n_configs: Candidates.
        n_seeds: Seeds that a candidate can be run on.
        shares: Marks at which runs can be judged, ascending shares of the whole budget of a run; the last one is 1.
        budget: What may be spent, in whole runs.
        groups: Of each candidate: those of one group differ in nothing but their learning rate. Empty: no groups.
        positions: Of each candidate: the decimal logarithm of its learning rate. Empty where there are no groups.
    """

    n_configs: int
    n_seeds: int
    shares: tuple[float, ...]
    budget: float
    groups: tuple[Hashable, ...] = ()
    positions: tuple[float, ...] = ()

    def mark(self, share: float) -> int:
        """The first mark at or after this share of a run."""
        return next(i for i, own in enumerate(self.shares) if own >= share - 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Runs that are trained on to a mark. Every run that has begun, is not at its end, and is not named is given up.

    Attributes:
        runs: (config, seed), each by position.
        mark: By position.
    """

    runs: Collection[tuple[int, int]]
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy concludes.

    Attributes:
        pick: The candidate that it recommends.
        interval: Between which values it expects the pick's, with 95% probability; None where it does not say.
        rate: What it says of the best learning rate of the pick's group; None where it does not say.
    """

    pick: int
    interval: tuple[float, float] | None = None
    rate: LearningRateEstimate | None = None


Policy = Callable[[Problem, np.random.Generator], Generator[Round, Values, Decision]]
