"""Protocol of search policies.

A policy is a generator. It yields rounds, receives the values of the runs of each round, and returns its decision::

    def policy(problem, rng):
        values = yield Round(runs={(0, 0), (1, 0)}, mark=3)
        return Decision(pick=max((0, 1), key=lambda config: values[config, 0]))

A policy does not depend on training. It can be replayed over a table of finished runs in milliseconds
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
    """Search problem.

    Attributes:
        n_configs: Number of candidates.
        n_seeds: Number of seeds on which a candidate can be run.
        shares: Marks at which runs can be judged, ascending shares of the whole budget of a run; the last one is 1.
        budget: Budget in whole runs.
        groups: Group of each candidate: those of one group differ in their learning rate only. Empty: no groups.
        positions: Decimal logarithm of the learning rate of each candidate. Empty if there are no groups.
    """

    n_configs: int
    n_seeds: int
    shares: tuple[float, ...]
    budget: float
    groups: tuple[Hashable, ...] = ()
    positions: tuple[float, ...] = ()

    def mark(self, share: float) -> int:
        """Return the first mark at or after this share of a run."""
        return next(i for i, own in enumerate(self.shares) if own >= share - 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Runs that are trained up to a mark. Unfinished runs that are not named are abandoned.

    Attributes:
        runs: (config, seed), each by position.
        mark: Position of the mark.
    """

    runs: Collection[tuple[int, int]]
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Result of a policy.

    Attributes:
        pick: Position of the recommended candidate.
        interval: 95% interval of the value of the pick; None if the policy has none.
        rate: Estimate of the best learning rate of its group; None if the policy has none.
    """

    pick: int
    interval: tuple[float, float] | None = None
    rate: LearningRateEstimate | None = None


Policy = Callable[[Problem, np.random.Generator], Generator[Round, Values, Decision]]
