"""Bounds of episode returns, inferred from the episodes of a study.

An interval for the value of an agent that reached 480 of 500 on CartPole-v1 may not end at 734. Gymnasium does not
declare the range of returns, so bounds are inferred from recorded episodes, together with the step limit and the reward
threshold of the environment, which each trial records:

- Where every episode returned the same reward a step, returns are bounded by the step limit.
- Where several runs came to exactly the highest return again and again, that is the most there is, unless the
  environment's reward threshold lies above it; likewise the lowest return is the least.

Where neither holds, nothing is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

RUNS = 3
"""Runs that must have come to exactly the lowest or the highest return, for it to be the least or the most there is."""

TIMES = 3
"""Episodes of each of these runs that must have returned exactly that."""

_SAME = 1e-9
"""Relative difference up to which rewards a step are the same."""


class Bounds(NamedTuple):
    """Between which numbers returns lie; infinite where nothing is known.

    Attributes:
        least: The lowest.
        most: The highest.
    """

    least: float
    most: float


NO_BOUNDS = Bounds(-math.inf, math.inf)


class ReturnsSeen(NamedTuple):
    """The returns of all episodes of a study.

    Attributes:
        lowest: The lowest return.
        highest: The highest return.
        n_lowest: Runs with at least `TIMES` episodes that returned exactly the lowest.
        n_highest: Runs with at least `TIMES` episodes that returned exactly the highest.
        least_a_step: The lowest return over length of an episode.
        most_a_step: The highest one.
    """

    lowest: float
    highest: float
    n_lowest: int
    n_highest: int
    least_a_step: float
    most_a_step: float


def bounds_of(seen: ReturnsSeen, step_limit: int | None = None, reward_threshold: float | None = None) -> Bounds:
    """Returns what the episodes that were seen say of all others.

    Args:
        seen: The returns of all episodes.
        step_limit: Steps after which an episode is truncated; None where it is unknown or there is none.
        reward_threshold: The return from which the environment counts as solved; None where it is unknown.
    """
    if seen.lowest == seen.highest:
        return NO_BOUNDS  # nothing was learned: the next agent may be the first to leave it
    reward = seen.most_a_step
    if reward != 0 and math.isclose(seen.least_a_step, reward, rel_tol=_SAME):
        at_limit = math.inf if step_limit is None else abs(reward) * step_limit
        bounds = Bounds(reward, at_limit) if reward > 0 else Bounds(-at_limit, reward)
        # Copies of an environment may count a step more than its limit; what was seen is possible.
        return Bounds(min(bounds.least, seen.lowest), max(bounds.most, seen.highest))
    solved = reward_threshold is None or seen.highest >= reward_threshold
    return Bounds(
        seen.lowest if seen.n_lowest >= RUNS else -math.inf,
        seen.highest if seen.n_highest >= RUNS and solved else math.inf,
    )
