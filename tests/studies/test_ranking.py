from __future__ import annotations

import math

import pytest

from studies.errors import StudyError
from studies.ranking import Candidate, last_part_return, overlapping, rank, windowed_mean


def entry(label: str, *values: float, number: int = 0) -> Candidate:
    return Candidate(label=label, params={}, seed_values=values, number=number)


def test_last_part_return_by_hand() -> None:
    steps, returns = [10, 79, 80, 81, 100, 104], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert last_part_return(steps, returns, budget=100) == (8 + 16 + 32) / 3
    assert last_part_return(steps, returns, budget=100, part=1.0) == sum(returns) / 6
    assert last_part_return(steps[::-1], returns[::-1], budget=100) == (8 + 16 + 32) / 3
    assert math.isnan(last_part_return([10], [5.0], budget=100))
    assert math.isnan(last_part_return([], [], budget=100))


def test_last_part_return_refuses_nonsense() -> None:
    with pytest.raises(StudyError, match="budget is 0"):
        last_part_return([1], [1.0], budget=0)
    for part in (0.0, 1.5):
        with pytest.raises(StudyError, match="part is"):
            last_part_return([1], [1.0], budget=10, part=part)
    with pytest.raises(StudyError, match="one length"):
        last_part_return([1, 2], [1.0], budget=10)


def test_windowed_mean_by_hand() -> None:
    steps, values = [10, 20, 30, 40], [1.0, 2.0, 3.0, 4.0]
    assert windowed_mean(steps, values, at=30, width=20) == 2.5  # 20 < 30 <= 30 and 10 is outside
    assert windowed_mean(steps, values, at=30, width=21) == 2.0
    assert windowed_mean(steps, values, at=39, width=10) == 3.0
    assert math.isnan(windowed_mean(steps, values, at=5, width=5))
    with pytest.raises(StudyError, match="width is 0"):
        windowed_mean(steps, values, at=5, width=0)


def test_rank_by_hand() -> None:
    ranked = rank([entry("low", 1.0, 3.0), entry("high", 4.0, 8.0), entry("one", 5.0)])
    assert [(each.label, each.mean, each.n_seeds) for each in ranked] == [("high", 6, 2), ("one", 5, 1), ("low", 2, 2)]
    assert ranked[0].spread == math.sqrt(8.0)  # ((4-6)^2 + (8-6)^2) / (2 - 1)
    assert math.isnan(ranked[1].spread)
    assert [each.label for each in rank([entry("a", 1.0), entry("b", 2.0)], "minimize")] == ["a", "b"]


def test_ties_go_to_the_lower_spread_then_to_the_lower_number() -> None:
    wide, narrow = entry("wide", 1.0, 9.0, number=0), entry("narrow", 4.0, 6.0, number=3)
    twin, alone = entry("twin", 6.0, 4.0, number=2), entry("alone", 5.0, number=1)
    for direction in ("maximize", "minimize"):
        ranked = rank([alone, wide, narrow, twin], direction)  # type: ignore[arg-type]
        assert [each.label for each in ranked] == ["twin", "narrow", "wide", "alone"]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_unknown_values_come_last(direction: str) -> None:
    ranked = rank([entry("nan", math.nan, 1.0), entry("none"), entry("inf", math.inf), entry("known", 0.0)], direction)  # type: ignore[arg-type]
    assert ranked[0].label == "known"
    assert all(math.isnan(each.mean) for each in ranked[1:])


def test_direction_is_checked() -> None:
    with pytest.raises(StudyError, match="'up'"):
        rank([], "up")  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_spreads_overlap_where_the_bars_of_a_figure_do(direction: str) -> None:
    sign = 1.0 if direction == "maximize" else -1.0
    best, near, far = entry("best", 57 * sign, 77 * sign), entry("near", 34 * sign, 62 * sign), entry("far", 9.0, 9.0)
    ranked = rank([far, near, best], direction)  # type: ignore[arg-type]
    if direction == "minimize":
        ranked = [each for each in ranked if each.label != "far"]
    assert [each.label for each in overlapping(ranked)] == ["near"]  # 67 - 14.1 < 48 + 19.8
    assert overlapping(rank([entry("a", 1.0, 3.0), entry("b", 5.0, 7.0)])) == []  # 2 ± 1.4 and 6 ± 1.4


def test_one_seed_has_no_spread_to_overlap() -> None:
    ranked = rank([entry("a", 2.0), entry("b", 2.0, number=1), entry("c", 1.999, number=2)])
    assert [each.label for each in overlapping(ranked)] == ["b"]
    assert overlapping([]) == []
    assert overlapping(rank([entry("unknown", math.nan), entry("too", math.nan)])) == []
