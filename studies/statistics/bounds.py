"""Bounds of episode returns, inferred from the episodes of a study.

An interval for the value of an agent that reached 480 of 500 on CartPole-v1 must not end at 734. Gymnasium does not
declare the range of returns, so bounds are inferred from recorded episodes, together with the step limit and the reward
threshold of the environment, which each trial records:

- If every episode earned the same reward per step, the step limit bounds the return.
- If several runs repeatedly reached exactly the highest return, it is the upper bound, unless the reward threshold of
  the environment is higher. The lower bound is found in the same way.

Otherwise the bounds are unknown.
"""

from __future__ import annotations

import math
from typing import NamedTuple

RUNS = 3
"""Runs that must have exactly the lowest or the highest value for it to count as a bound."""

TIMES = 3
"""Episodes of each of these runs that must have returned exactly this value."""

_SAME = 1e-9
"""Relative difference below which two rewards per step are equal."""


class Bounds(NamedTuple):
    """Bounds of a return; infinite where unknown.

    Attributes:
        least: Lower bound.
        most: Upper bound.
    """

    least: float
    most: float


NO_BOUNDS = Bounds(-math.inf, math.inf)


class ReturnExtremes(NamedTuple):
    """Extremes of the episode returns of a study.

    Attributes:
        lowest: Lowest return.
        highest: Highest return.
        n_lowest: Runs with at least `TIMES` episodes that returned exactly `lowest`.
        n_highest: Runs with at least `TIMES` episodes that returned exactly `highest`.
        least_per_step: Lowest return per step of an episode.
        most_per_step: Highest return per step of an episode.
    """

    lowest: float
    highest: float
    n_lowest: int
    n_highest: int
    least_per_step: float
    most_per_step: float


def bounds_of(seen: ReturnExtremes, step_limit: int | None = None, reward_threshold: float | None = None) -> Bounds:
    """Return the bounds that the recorded episodes imply.

    Args:
        seen: Extremes of the recorded returns.
        step_limit: Steps after which an episode is truncated; None if unknown or unlimited.
        reward_threshold: Return from which the environment counts as solved; None if unknown.
    """
    if seen.lowest == seen.highest:
        return NO_BOUNDS  # no learning so far: the next agent may leave this value
    reward = seen.most_per_step
    if reward != 0 and math.isclose(seen.least_per_step, reward, rel_tol=_SAME):
        at_limit = math.inf if step_limit is None else abs(reward) * step_limit
        bounds = Bounds(reward, at_limit) if reward > 0 else Bounds(-at_limit, reward)
        # Vector environments may count one step more than the limit; recorded returns are always possible.
        return Bounds(min(bounds.least, seen.lowest), max(bounds.most, seen.highest))
    return reached_bounds(seen.lowest, seen.highest, seen.n_lowest, seen.n_highest, reward_threshold)


def reached_bounds(
    lowest: float, highest: float, n_lowest: int, n_highest: int, reward_threshold: float | None = None
) -> Bounds:
    """Return the bounds that several runs (`RUNS`) reached exactly.

    Values below the threshold have no upper bound: runs that stand still in a local optimum reach it exactly, too.

    Args:
        lowest: Lowest value.
        highest: Highest value.
        n_lowest: Runs that reached exactly `lowest`.
        n_highest: Runs that reached exactly `highest`.
        reward_threshold: Return from which the environment counts as solved; None if unknown.
    """
    is_solved = reward_threshold is None or highest >= reward_threshold
    return Bounds(
        lowest if n_lowest >= RUNS else -math.inf,
        highest if n_highest >= RUNS and is_solved else math.inf,
    )
