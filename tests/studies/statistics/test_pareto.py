"""Pareto fronts against fronts worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from studies import StudyError
from studies.statistics.pareto import dominated_by, surely_dominated


def test_points_that_are_as_good_and_better_in_one_dominate() -> None:
    values = [[1, 1], [2, 1], [2, 2], [3, 0], [2, 2]]
    dominated = dominated_by(values, [1, 1])
    assert np.flatnonzero(dominated[0]).tolist() == [1, 2, 4]
    assert np.flatnonzero(dominated[1]).tolist() == [2, 4]
    assert dominated.any(axis=1).tolist() == [True, True, False, False, False]  # equal points do not dominate


def test_directions() -> None:
    # Higher and sooner: (10, 300) and (12, 500) are a choice; (9, 400) is neither.
    values = [[10, 300], [12, 500], [9, 400]]
    assert dominated_by(values, [1, -1]).any(axis=1).tolist() == [False, False, True]
    assert dominated_by(values, [-1, 1]).any(axis=1).tolist() == [True, False, False]


def test_naive_loop() -> None:
    rng = np.random.default_rng(0)
    values, signs = rng.integers(0, 4, (30, 3)), np.array([1, -1, 1])
    own = values * signs
    for i in range(30):
        for j in range(30):
            expected = bool(np.all(own[j] >= own[i]) and np.any(own[j] > own[i]))
            assert dominated_by(values, signs)[i, j] == expected


def test_intervals_dominate_that_lie_above_in_every_objective() -> None:
    lows = [[8.0, 4.0], [7.0, 3.0], [7.0, 0.5], [5.0, 0.5]]
    highs = [[12.0, 6.0], [11.0, 5.0], [11.0, 1.5], [6.0, 1.5]]
    # The third is worse in the second objective, but may be better in the first.
    assert surely_dominated(lows, highs, [1, 1]).tolist() == [False, False, False, True]
    assert surely_dominated([[np.nan] * 2] * 3, [[np.nan] * 2] * 3, [1, 1]).tolist() == [False] * 3


def test_intervals_that_meet_in_one_objective_dominate_by_another() -> None:
    assert surely_dominated([[3.0, 1.0], [1.0, 1.0]], [[4.0, 1.0], [2.0, 1.0]], [1, 1]).tolist() == [False, True]
    assert surely_dominated([[1.0, 1.0]] * 2, [[1.0, 1.0]] * 2, [1, 1]).tolist() == [False, False]


def test_intervals_of_objectives_that_are_minimized() -> None:
    assert surely_dominated([[0.5], [4.0]], [[1.5], [6.0]], [-1]).tolist() == [False, True]


def test_points_on_the_true_front_are_hardly_ever_told_apart_from_it() -> None:
    # The second point is on the front, better than the first by 0.3 of a standard deviation in the second objective.
    rng, n_seeds = np.random.default_rng(0), 8
    true = np.array([[10.0, 5.0], [5.0, 5.3]])
    told_apart = 0
    for _ in range(300):
        values = true + rng.standard_normal((n_seeds, 2, 2))
        centers, reach = values.mean(axis=0), 2.36 * values.std(axis=0, ddof=1) / np.sqrt(n_seeds)
        told_apart += surely_dominated(centers - reach, centers + reach, [1, 1])[1]
    assert told_apart <= 3


def test_shapes_are_checked() -> None:
    with pytest.raises(StudyError, match=r"values has shape \(2, 2\) and signs \(3,\)"):
        dominated_by([[1, 2], [3, 4]], [1, 1, 1])
