"""Expected values of candidates with a single seed, worked out by hand."""

from __future__ import annotations

import pytest

from studies.statistics.luck import without_luck


def test_luck_grows_from_nothing_at_the_median_to_that_of_the_chosen_ones() -> None:
    chosen = [(90.0, 60.0), (110.0, 80.0)]  # 100 on average, and 70 on further seeds
    everyone = [20.0, 30.0, 50.0, 60.0, 80.0, 90.0, 110.0, 40.0, -1e30]
    values = [-1e30, 20.0, 50.0, 80.0, 100.0, 120.0]
    assert without_luck(values, chosen, everyone) == pytest.approx([-1e30, 20.0, 50.0, 62.0, 70.0, 78.0])


def test_no_value_is_above_the_chosen_ones_where_all_are_close() -> None:
    # All but a few were good: their median is 94, and the chosen ones fall to 50.
    assert without_luck([93.0, 20.0, 50.0], [(95.0, 50.0)], [95.0, 93.0]) == [50.0, 20.0, 50.0]


def test_further_seeds_may_be_better() -> None:
    assert without_luck([4.0, 8.0], [(10.0, 14.0)], [2.0, 10.0]) == [4.0, pytest.approx(6 + 2 * 8 / 4)]
    assert without_luck([12.0], [(10.0, 14.0)], [2.0, 10.0]) == [16.0]


def test_values_remain_where_the_chosen_ones_were_not_lucky() -> None:
    assert without_luck([100.0, 60.0, 30.0], [(50.0, 50.0)], [100.0, 60.0, 50.0, 30.0]) == [100.0, 60.0, 30.0]


def test_values_remain_where_nothing_is_known_of_luck() -> None:
    assert without_luck([3.0], [], [3.0, 1.0]) == [3.0]
    assert without_luck([5.0], [(5.0, 7.0)], [5.0, 5.0]) == [5.0]
