"""The value of a run from its episodes, and interquartile means over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.errors import StudyError
from studies.statistics.values import iqm, iqm_of_population, last_part_return, spread_of_seeds, windowed_mean


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], 7.0), ([1.0, 2.0, 6.0], 3.0), ([100.0, 2.0, 3.0, 1.0], 2.5), ([0, 0, 2, 4, 6, 8, 9, 99], 5.0)],
)
def test_iqm_drops_a_quarter_at_both_ends(values: list[float], expected: float) -> None:
    assert iqm(values) == pytest.approx(expected)


@pytest.mark.parametrize("values", [[1.0, np.nan], [1.0, 2.0, 3.0, np.nan], [np.nan] * 8])
def test_iqm_of_nan_is_nan(values: list[float]) -> None:
    assert np.isnan(iqm(values))


def test_iqm_reduces_the_last_axis() -> None:
    np.testing.assert_allclose(iqm(np.array([[1.0, 2.0, 3.0, 100.0], [0.0, 0.0, 0.0, 0.0]])), [2.5, 0.0])


def test_last_part_return_matches_a_calculation_by_hand() -> None:
    steps, returns = [10, 79, 80, 81, 100, 104], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert last_part_return(steps, returns, budget=100) == (8 + 16 + 32) / 3
    assert last_part_return(steps, returns, budget=100, part=1.0) == sum(returns) / 6
    assert last_part_return(steps[::-1], returns[::-1], budget=100) == (8 + 16 + 32) / 3
    assert math.isnan(last_part_return([10], [5.0], budget=100))
    assert math.isnan(last_part_return([], [], budget=100))


def test_last_part_return_invalid_arguments_raise() -> None:
    with pytest.raises(StudyError, match="budget is 0"):
        last_part_return([1], [1.0], budget=0)
    for part in (0.0, 1.5):
        with pytest.raises(StudyError, match="part is"):
            last_part_return([1], [1.0], budget=10, part=part)
    with pytest.raises(StudyError, match="one length"):
        last_part_return([1, 2], [1.0], budget=10)


def test_windowed_mean_matches_a_calculation_by_hand() -> None:
    steps, values = [10, 20, 30, 40], [1.0, 2.0, 3.0, 4.0]
    assert windowed_mean(steps, values, at=30, width=20) == 2.5  # 20 < 30 <= 30 and 10 is outside
    assert windowed_mean(steps, values, at=30, width=21) == 2.0
    assert windowed_mean(steps, values, at=39, width=10) == 3.0
    assert math.isnan(windowed_mean(steps, values, at=5, width=5))
    with pytest.raises(StudyError, match="width is 0"):
        windowed_mean(steps, values, at=5, width=0)


def test_iqm_of_population_weights_partial_quartiles() -> None:
    assert iqm_of_population([0.0, 1.0, 2.0, 3.0]) == 1.5
    assert iqm_of_population([9.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == pytest.approx(4.5)
    # Thirds: between the quartiles lie 1/12 of the first, all of the second and 1/12 of the third, divided by a half.
    assert iqm_of_population([0.0, 10.0, 0.0]) == pytest.approx(10 / 12 / 0.5)
    assert iqm_of_population([[1.0], [5.0]], axis=0) == pytest.approx([3.0])


def test_spread_is_that_of_a_sample() -> None:
    assert spread_of_seeds([1.0, 3.0, 5.0]) == 2.0  # ((1-3)^2 + (5-3)^2) / (3 - 1) = 4
    assert [math.isnan(spread_of_seeds(values)) for values in ((), (1.0,), (1.0, math.nan), (1.0, math.inf))] == [
        True
    ] * 4
