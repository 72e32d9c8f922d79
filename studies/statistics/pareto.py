"""Pareto fronts. Pure functions over numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from studies.errors import StudyError

Array = np.ndarray[Any, Any]


def dominated_by(values: ArrayLike, signs: ArrayLike) -> Array:
    """Return which points dominate which: those that are as good in every objective, and better in one.

    Args:
        values: Finite values, [n, k].
        signs: 1 for an objective that is maximized, -1 for one that is minimized, [k].

    Returns:
        [n, n] bool: whether the point of the column dominates that of the row.

    Raises:
        StudyError: If the shapes do not fit.
    """
    points, directions = np.asarray(values, np.float64), np.asarray(signs, np.float64)
    if points.ndim != 2 or points.shape[1:] != directions.shape:
        raise StudyError(f"values has shape {points.shape} and signs {directions.shape}: give [n, k] and [k].")
    better = points * directions
    return _dominated_by(better, better)


def surely_dominated(lows: ArrayLike, highs: ArrayLike, signs: ArrayLike) -> Array:
    """Return which points another one dominates by intervals: no worse in every objective, and better in one.

    By points alone, noise in an objective in which two are about equal would make one dominate the other.

    Args:
        lows: Lower ends of the intervals of the values, [n, k]; NaN where unknown.
        highs: Upper ends, [n, k].
        signs: See `dominated_by`.

    Returns:
        [n] bool.
    """
    directions = np.asarray(signs, np.float64)
    ends = np.stack([np.asarray(lows, np.float64) * directions, np.asarray(highs, np.float64) * directions])
    worst, most = ends.min(axis=0), ends.max(axis=0)  # [n, k]: where higher is better
    return np.asarray(_dominated_by(worst, most).any(axis=1))  # the column's worst beside the row's best


def _dominated_by(others: Array, own: Array) -> Array:
    """Return [n, n]: whether the other point of the column dominates the own one of the row, where higher is better."""
    columns, rows = others[None, :, :], own[:, None, :]  # [1, n, k], [n, 1, k]
    as_good, better_in_one = (columns >= rows).all(axis=-1), (columns > rows).any(axis=-1)
    return np.logical_and(as_good, better_in_one)
