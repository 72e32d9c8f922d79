"""Value of a run from its whole learning curve: area under it, and steps to a threshold. Pure functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from studies.errors import StudyError
from studies.statistics.values import as_curve

N_EPISODES = 20
"""Episodes whose mean return has to reach a threshold."""

_ROUNDING = 1e-9
"""Rounding of a mean, as a share of its largest value."""


def area_under_curve(env_steps: ArrayLike, values: ArrayLike, until: float) -> float:
    """Return the mean of a learning curve over environment steps: its area divided by the steps.

    At every step, the curve has the value of the episode that is under way there, or, behind the last one that ended,
    of that one. Episodes of several environments that run at the same time share their steps equally: each counts for
    the steps since the end of the one before.

    Args:
        env_steps: Environment steps of the run at the end of each episode, [n], in any order.
        values: Value of each episode, [n].
        until: Environment steps at which the curve ends, above 0. Episodes that end later are left out.

    Returns:
        The mean; NaN if no episode ended by then.

    Raises:
        StudyError: If the lengths differ, or `until` is not above 0.
    """
    steps, numbers = _ordered(env_steps, values)
    if not until > 0:
        raise StudyError(f"until is {until}: give a number of environment steps above 0.")
    known = steps <= until
    steps, numbers = steps[known], numbers[known]
    if not steps.size:
        return math.nan
    spans = np.diff(steps, prepend=0.0)
    left = until - steps[-1]
    return float((numbers @ spans + numbers[-1] * left) / until)


def steps_to_threshold(
    env_steps: ArrayLike,
    values: ArrayLike,
    threshold: float,
    until: float,
    n_episodes: int = N_EPISODES,
    *,
    unreached: float | None = None,
) -> float:
    """Return the environment steps after which the mean of the last `n_episodes` values reaches a threshold.

    A run that does not reach it counts as one that reaches it at the end: how much longer it would take is unknown.

    Args:
        env_steps: Environment steps of the run at the end of each episode, [n], in any order.
        values: Value of each episode, [n].
        threshold: Value to reach.
        until: Environment steps at which the curve ends, above 0. Episodes that end later are left out.
        n_episodes: Number of episodes, >= 1; fewer never reach the threshold. Defaults to 20.
        unreached: Value of a curve that does not reach the threshold. Defaults to `None`: `until`.

    Returns:
        The steps; NaN if no episode ended by then.

    Raises:
        StudyError: If the lengths differ, or a number is out of range.
    """
    steps, numbers = _ordered(env_steps, values)
    if not until > 0 or n_episodes < 1:
        raise StudyError(f"until is {until} and n_episodes is {n_episodes}: give numbers above 0.")
    known = steps <= until
    steps, numbers = steps[known], numbers[known]
    if not steps.size:
        return math.nan
    reached = np.zeros(0, np.int64)
    if len(numbers) >= n_episodes:
        windows, sizes = (  # [n - n_episodes + 1, n_episodes], without copies
            np.lib.stride_tricks.sliding_window_view(each, n_episodes) for each in (numbers, np.abs(numbers))
        )
        reached = np.flatnonzero(windows.mean(axis=1) >= threshold - _ROUNDING * sizes.max(axis=1))
    return (
        float(steps[reached[0] + n_episodes - 1]) if reached.size else float(until if unreached is None else unreached)
    )


def _ordered(env_steps: ArrayLike, values: ArrayLike) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return both in the order of the steps; of equal steps, the order stays."""
    steps, numbers = as_curve(env_steps, values)
    order = np.argsort(steps, kind="stable")
    return steps[order], numbers[order]
