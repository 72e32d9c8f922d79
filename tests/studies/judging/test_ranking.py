"""Ranking of candidates, ties, and the recommended candidate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from studies.errors import StudyError
from studies.judging import ranking
from studies.judging.ranking import (
    UNLIKELY,
    Candidate,
    Ranked,
    may_exceed,
    rank,
    reach_above,
    seeds_to_settle,
    worst_choice,
)
from studies.judging.robust_choice import PrunedEstimate, recommended
from studies.statistics.intervals import estimate


def entry(label: str, *values: float, number: int = 0) -> Candidate:
    return Candidate(label=label, params={}, seed_values=values, number=number)


def test_rank_matches_a_calculation_by_hand() -> None:
    ranked = rank([entry("low", 1.0, 3.0), entry("high", 4.0, 8.0), entry("one", 5.0)])
    assert [(each.label, each.value, each.n_seeds) for each in ranked] == [("high", 6, 2), ("one", 5, 1), ("low", 2, 2)]
    assert ranked[0].spread == math.sqrt(8.0)  # ((4-6)^2 + (8-6)^2) / (2 - 1)
    assert math.isnan(ranked[1].spread)
    assert [each.label for each in rank([entry("a", 1.0), entry("b", 2.0)], "minimize")] == ["a", "b"]


def test_equal_values_are_ordered_by_spread_then_number() -> None:
    wide, narrow = entry("wide", 1.0, 9.0, number=0), entry("narrow", 4.0, 6.0, number=3)
    twin, alone = entry("twin", 6.0, 4.0, number=2), entry("alone", 5.0, number=1)
    for direction in ("maximize", "minimize"):
        ranked = rank([alone, wide, narrow, twin], direction)  # type: ignore[arg-type]
        assert [each.label for each in ranked] == ["twin", "narrow", "wide", "alone"]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_non_finite_values_rank_last(direction: str) -> None:
    ranked = rank([entry("nan", math.nan, 1.0), entry("none"), entry("inf", math.inf), entry("known", 0.0)], direction)  # type: ignore[arg-type]
    assert ranked[0].label == "known"
    assert all(math.isnan(each.value) for each in ranked[1:])


def test_invalid_direction_raises() -> None:
    with pytest.raises(StudyError, match="'up'"):
        rank([], "up")  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_candidates_indistinguishable_from_the_best_are_tied(direction: str) -> None:
    sign = 1.0 if direction == "maximize" else -1.0

    def at(label: str, center: float, number: int) -> Candidate:
        return entry(label, *(sign * (center + each) for each in (-2.0, 0.0, 2.0)), number=number)

    ranked = rank([at("far", 50, 0), at("near", 99, 1), at("best", 100, 2)], direction)  # type: ignore[arg-type]
    assert [(each.label, each.tied) for each in ranked] == [("best", True), ("near", True), ("far", False)]
    assert ranked[0].low < sign * 100 < ranked[0].high
    assert ranked[0].probability_best > ranked[1].probability_best > 0.1 > ranked[2].probability_best
    assert seeds_to_settle(ranked, direction) > 10  # type: ignore[arg-type,operator]


def test_value_is_the_mean_for_any_number_of_seeds() -> None:
    assert [each.value for each in rank([entry("a", 1.0, 2.0, 3.0, 100.0), entry("b", 1.0, 2.0, 6.0)])] == [26.5, 3.0]


def rate(number: int, power: float, *values: float, **others: float) -> Candidate:
    return Candidate(
        label=f"#{number}", params={"learning_rate": 10**power, **others}, seed_values=values, number=number
    )


def test_recommended_of_equal_rates_has_good_neighbours() -> None:
    plateau = [rate(i, -5 + i, *values) for i, values in enumerate([(0, 9), (99, 101), (99, 101), (99, 101), (0, 5)])]
    assert recommended(rank(plateau)).number == 2  # type: ignore[union-attr]


def test_recommended_rate_is_not_next_to_a_cliff() -> None:
    cliff = [rate(0, -4, 60, 62, 64), rate(1, -3.5, 97, 98, 99), rate(2, -3, 98, 99, 100), rate(3, -2.5, 0, 1, 2)]
    ranked = rank(cliff)
    assert ranked[0].number == 2
    assert recommended(ranked).number == 1  # type: ignore[union-attr]


def test_neighbours_share_all_other_parameters() -> None:
    entries = [rate(0, -4, 99, 101, gamma=0.9), rate(1, -3, 99, 101, gamma=0.5), rate(2, -3.5, 0, 2, gamma=0.9)]
    assert recommended(rank(entries)).number == 1  # type: ignore[union-attr]


def test_clear_winner_is_recommended_despite_bad_neighbours() -> None:
    entries = [rate(0, -4, 0, 1, 2), rate(1, -3, 98, 99, 100), rate(2, -2, 0, 1, 2)]
    ranked = rank(entries)
    assert [each.tied for each in ranked] == [True, False, False]
    assert recommended(ranked).number == 1  # type: ignore[union-attr]


def test_recommended_without_comparable_candidates() -> None:
    assert recommended([]) is None
    assert recommended(rank([entry("unknown", math.nan)])) is None
    assert recommended(rank([entry("one", 1.0), entry("other", 2.0, number=1)])).label == "other"  # type: ignore[union-attr]
    assert seeds_to_settle(rank([entry("one", 1.0), entry("other", 2.0)])) is None


def test_worst_choice_gives_tied_values_and_their_cost() -> None:
    def of(optimizer: str, number: int, *values: float) -> Candidate:
        return Candidate(label=optimizer, params={"optimizer": optimizer}, seed_values=values, number=number)

    entries = [
        of("adam", 0, 98, 99, 100),
        of("rmsprop", 1, 97, 99, 100),
        of("sgd", 2, 0, 1, 2),
        of("adam", 3, 50, 51, 52),
    ]
    level, cost = worst_choice(rank(entries), "optimizer")
    assert level == ["adam", "rmsprop"]
    assert 0.02 < cost < 0.06  # difference 0.3 and 95% intervals of ±2.2, relative to a range of 98
    assert worst_choice(rank(entries[1:]), "gamma") == ([], 0.0)
    level, _ = worst_choice(rank([entries[0], entries[2]]), "optimizer")
    assert level == ["adam"]


@pytest.mark.parametrize("value", [9.0, math.nan])
def test_pruned_or_failed_neighbour_counts_as_a_cliff(value: float) -> None:
    near = [
        rate(0, -4, 470, 480, 490),
        rate(1, -3.5, 470, 480, 490),
        rate(2, -3, 483, 493, 503),
        rate(3, -4.5, 9, 10, 11),
    ]
    ranked = rank(near)
    assert recommended(ranked).number == 2  # type: ignore[union-attr]
    left = [PrunedEstimate(params={"learning_rate": 10**-2.5}, value=value)]
    assert recommended(ranked, estimated=left).number in (0, 1)  # type: ignore[union-attr]


def test_middle_of_equal_rates_is_taken_per_optimizer() -> None:
    def of(number: int, optimizer: str, power: float) -> Candidate:
        params = {"optimizer": optimizer, "learning_rate": 10**power}
        return Candidate(label="", params=params, seed_values=(499.0, 500.0, 501.0), number=number)

    adam = [of(i, "adam", -3 + i / 2) for i in range(3)]
    sgd = [of(3 + i, "sgd", -1 + i / 2) for i in range(3)]
    assert recommended(rank([*adam, *sgd])).number in (1, 4)  # type: ignore[union-attr]


def test_interval_ends_at_an_extreme_reached_by_several_runs() -> None:
    candidates = [
        Candidate(label="a", params={}, seed_values=(500.0, 500.0, 490.0)),
        Candidate(label="b", params={}, seed_values=(500.0, 480.0, 495.0), number=1),
        Candidate(label="c", params={}, seed_values=(300.0, 200.0, 400.0), number=2),
    ]
    assert max(each.high for each in rank(candidates)) == 500.0
    fewer = [replace(candidates[0], seed_values=(500.0, 499.0, 490.0)), *candidates[1:]]
    assert max(each.high for each in rank(fewer)) > 500.0
    negated = [replace(each, seed_values=tuple(-value for value in each.seed_values)) for each in candidates]
    assert min(each.low for each in rank(negated, "minimize")) == -500.0


def test_interval_of_equal_runs_is_their_value() -> None:
    same = [Candidate(label=str(n), params={}, seed_values=(1.0, 1.0, 1.0), number=n) for n in range(3)]
    assert [(each.low, each.high) for each in rank(same)] == [(1.0, 1.0)] * 3


def test_candidates_unlikely_to_be_the_best_are_not_tied() -> None:
    values = np.linspace(0.0, 3.0, 16)[:, None] + np.random.default_rng(0).normal(size=(16, 3))
    ranked = rank([entry(str(n), *own, number=n) for n, own in enumerate(values.tolist())])
    left_out = [each for each in ranked if not each.tied]
    assert len(left_out) > 16 - estimate(values.tolist()).may_be_best().sum()
    assert 0 < sum(each.probability_best for each in left_out) <= UNLIKELY


def test_many_unlikely_candidates_are_tied_together() -> None:
    """By hand: 0.9 and 0.08 leave 0.02, of which two of four times 0.005 may be left out, and equal ones may not."""
    likely = ranking._likely(np.array([0.005, 0.9, 0.005, 0.08, 0.005, 0.005]))
    assert likely.all()
    assert ranking._likely(np.array([0.9, 0.08, 0.008, 0.006, 0.004, 0.002])).tolist() == [True] * 4 + [False] * 2
    assert ranking._likely(np.array([0.991, 0.005, 0.004])).tolist() == [True, False, False]


def test_many_equal_candidates_are_all_tied() -> None:
    equal = [Candidate(label=str(n), params={}, seed_values=(500.0, 500.0, 500.0), number=n) for n in range(150)]
    poor = Candidate(label="poor", params={}, seed_values=(20.0, 30.0, 25.0), number=150)
    ranked = rank([*equal, poor])
    assert [each.tied for each in ranked] == [True] * 150 + [False]


def test_recommended_of_equally_good_rates_has_the_lowest_spread() -> None:
    values = [
        (300.0, 310.0, 290.0),
        (500.0,) * 8,
        (500.0, 486.0, 500.0, 385.0, 500.0, 500.0, 500.0, 440.0),
        (500.0,) * 8,
    ]
    candidates = [
        Candidate(label=str(n), params={"learning_rate": 10 ** (-4 + n / 4)}, seed_values=own, number=n)
        for n, own in enumerate([*values, (480.0, 500.0, 470.0)])
    ]
    pick = recommended(rank(candidates))
    assert pick is not None
    assert pick.number in (1, 3)


def test_recommended_of_rates_with_equal_values_has_the_lowest_spread() -> None:
    swinging, steady = (1.0, 2.0, 3.0), (2.0, 2.0, 2.0)
    candidates = [
        Candidate(label=str(n), params={"learning_rate": 10.0**-n}, seed_values=own, number=n)
        for n, own in enumerate([swinging, steady, swinging])
    ]
    pick = recommended(rank(candidates))
    assert pick is not None
    assert pick.number == 1


def test_copies_of_the_same_runs_are_no_bound() -> None:
    """A parameter without effect gives candidates with identical runs; a ceiling is reached by runs of all seeds."""

    def ranked(*values: tuple[float, ...]) -> list[Ranked]:
        return rank(
            [Candidate(label=str(n), params={"x": n}, seed_values=own, number=n) for n, own in enumerate(values)]
        )

    others = ((100.0, 120.0, 140.0), (150.0, 130.0, 170.0))
    copied = ranked((312.4, 250.0, 280.0), (312.4, 250.0, 280.0), (312.4, 250.0, 280.0), *others)
    assert max(each.compared_high for each in copied) > 312.4
    at_ceiling = ranked((500.0, 500.0, 500.0), (500.0, 250.0, 280.0), *others)
    assert max(each.compared_high for each in at_ceiling) == 500.0


def test_may_exceed_is_limited_by_the_bounds() -> None:
    """By hand: with [450, 500] around 500 and [490, 500] around 495, the first is better by at most 5 + hypot(0, 5)."""
    at_most, near = rank([entry("at_most", 500.0, 500.0), entry("near", 490.0, 500.0)])
    at_most, near = (
        replace(at_most, compared_low=450.0, compared_high=500.0),
        replace(near, compared_low=490.0, compared_high=500.0),
    )
    assert may_exceed(at_most, near) == 10.0
    assert may_exceed(near, at_most) == pytest.approx(-5.0 + math.hypot(5.0, 50.0))
    lower, upper = (
        replace(near, compared_low=485.0, compared_high=505.0),
        replace(at_most, compared_low=480.0, compared_high=520.0),
    )
    assert may_exceed(upper, lower) == pytest.approx(5.0 + math.hypot(20.0, 10.0)), "symmetric intervals"


def test_reach_of_a_difference_uses_the_side_of_each_interval_that_it_needs() -> None:
    """By hand: 460 in [420, 500] may be 40 more, and 500 in [470, 500] may be 30 less, so 3-4-5."""
    further, search = rank([entry("further", 460.0, 460.0), entry("search", 500.0, 500.0)], "minimize")
    further = replace(further, compared_low=420.0, compared_high=500.0)
    search = replace(search, compared_low=470.0, compared_high=500.0)
    assert reach_above(further, search) == 50.0
    assert reach_above(search, further) == 40.0


def test_local_optimum_below_the_reward_threshold_is_no_upper_bound() -> None:
    still = [entry("still", 0.0, 0.0, 0.0), entry("also", 0.0, -1.0, 0.0)]
    others = [entry("one", -12.0, -30.0, -3.0), entry("two", -40.0, -22.0, -31.0)]
    assert rank([*still, *others])[0].high == 0.0
    assert rank([*still, *others], reward_threshold=90.0)[0].high > 0.0
    assert rank([*still, *others], reward_threshold=-5.0)[0].high == 0.0


def test_value_that_all_runs_of_one_candidate_reached_is_no_bound() -> None:
    others = [entry("one", -12.0, -30.0, -3.0), entry("two", -40.0, -22.0, -31.0)]
    assert rank([entry("still", 0.0, 0.0, 0.0), *others])[0].high > 0.0
    assert rank([entry("still", 0.0, 0.0, 0.0), entry("also", 0.0, -1.0, -2.0), *others])[0].high == 0.0


def test_range_of_a_wrong_choice_leaves_out_the_worst_not_the_best() -> None:
    level = [
        Candidate(label=name, params={"optimizer": name}, seed_values=values, number=number)
        for number, (name, values) in enumerate({"adam": (500.0, 480.0), "sgd": (490.0, 490.0)}.items())
    ]
    others = [100.0, 200.0, 300.0, 0.0]
    cost = worst_choice(rank(level), "optimizer", others)[1]
    down = [replace(each, seed_values=tuple(-value for value in each.seed_values)) for each in level]
    mirrored = worst_choice(rank(down, "minimize"), "optimizer", [-value for value in others], "minimize")[1]
    assert cost == pytest.approx(mirrored)
    assert cost > worst_choice(rank(level), "optimizer", others, "minimize")[1]  # of which 490 is the worst
