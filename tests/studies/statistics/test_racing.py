"""Racing: scores and surviving candidates, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from studies.statistics.drift import drift
from studies.statistics.racing import Racer, scores, survivors
from studies.statistics.rate_curve import log10_rate


def curve(values: list[float | None], group: str = "adam", spread: float = 0.1) -> list[Racer]:
    """Return racers at steps of half a decade from 1e-4, with three seeds each; None has left the race."""
    return [
        Racer(
            values=() if value is None else (value - spread, value, value + spread), group=group, position=-4 + 0.5 * i
        )
        for i, value in enumerate(values)
    ]


def test_best_rate_falls_with_the_length_of_runs() -> None:
    assert drift(0.1) == pytest.approx((-0.75, 0.5))
    assert drift(1.0) == (0.0, 0.0)
    assert drift(10.0) == pytest.approx((0.75, 0.5))  # a shorter run


def test_scores_are_smoothed_over_neighbouring_rates() -> None:
    # Weights: exp(-0.5 (0.5 / 0.3)^2) = 0.249 at half a decade, 0.004 at a decade: (8 * 0.249) / 1.502 and so on.
    # Its three seeds have a weight of three fifths, the curve two fifths: 0.6 * 8 + 0.4 * 5.324.
    found = scores(curve([0.0, 0.0, 8.0, 0.0]), 1.0)
    assert [found[i] for i in range(4)] == pytest.approx([0.010, 0.531, 6.930, 0.637], abs=1e-3)


def test_scores_are_read_at_the_predicted_position_of_the_curve() -> None:
    # After a tenth of the run the curve still moves by 0.75 decades: 1e-4 scores as halfway from 10^-3.5 to 10^-3 now.
    found = scores(curve([0.0, 0.0, 8.0, 0.0]), 0.1)
    now = [0.025, 1.328, 5.324, 1.592]
    later = [(now[1] + now[2]) / 2, (now[2] + now[3]) / 2, now[3], now[3]]
    # Three fifths of the difference between each value and the curve at its position remain.
    later = [value + 0.6 * (own - curve) for value, own, curve in zip(later, [0.0, 0.0, 8.0, 0.0], now, strict=True)]
    assert [found[i] for i in range(4)] == pytest.approx(later, abs=1e-3)


def test_pruned_neighbour_counts_as_the_worst() -> None:
    found = scores(curve([2.0, None, 8.0]), 1.0)
    near, far = math.exp(-0.5 * (0.5 / 0.3) ** 2), math.exp(-0.5 * (1 / 0.3) ** 2)
    whole = 1 + near + far
    low, high = (2 + 2 * near + 8 * far) / whole, (8 + 2 * near + 2 * far) / whole
    assert found == pytest.approx({0: 0.6 * 2 + 0.4 * low, 2: 0.6 * 8 + 0.4 * high})


def test_candidates_without_rates_are_not_smoothed() -> None:
    racers = [Racer(values=(value,)) for value in (1.0, 5.0, 3.0)]
    assert scores(racers, 0.1) == {0: 1.0, 1: 5.0, 2: 3.0}


def test_share_of_survivors_is_the_remaining_share_of_the_run() -> None:
    racers = [Racer(values=(float(i),)) for i in range(10)]
    assert survivors(racers, 0.1) == list(range(1, 10))
    assert survivors(racers, 0.5) == [5, 6, 7, 8, 9]
    assert survivors(racers, 0.7) == [7, 8, 9]
    assert survivors(racers, 0.99) == [7, 8, 9]  # at least three


def test_pruned_candidates_count_towards_the_share_of_survivors() -> None:
    racers = [Racer(values=(float(i),) if i >= 4 else ()) for i in range(10)]
    assert survivors(racers, 0.3) == [4, 5, 6, 7, 8, 9]  # seven of ten, but only six are left
    assert survivors(racers, 0.5) == [5, 6, 7, 8, 9]


def test_candidates_equal_to_the_last_survivor_stay() -> None:
    assert survivors([Racer(values=(value,)) for value in (1.0, 0.0, 0.0, 0.0, 0.0, 2.0)], 0.5) == [0, 1, 2, 3, 4, 5]
    # Also on a curve, where sums of equal numbers differ by rounding.
    assert survivors(curve([-200.0] * 12, spread=0.0), 0.7) == list(range(12))


def test_rate_below_the_best_stays_where_an_equal_rate_above_leaves() -> None:
    values = [0.0, 50.0, 50.0, 90.0, 95.0, 90.0, 50.0, 0.0]
    # After 30% of the runs the best rate still moves down by 0.39 decades. So 1e-4 will score about as 10^-3.6 now, 34
    # on the curve less 0.6 * 10 for its seeds; and 10^-1 as 10^-0.6 now, 18 and 1.
    assert survivors(curve(values), 0.3) == [0, 1, 2, 3, 4, 5]
    assert survivors(curve(values), 0.5) == [2, 3, 4, 5]


def test_rates_of_another_optimizer_are_not_neighbours() -> None:
    racers = [*curve([0.0, 80.0, 90.0]), *curve([0.0, 80.0, 0.0], "sgd")]
    found = scores(racers, 1.0)
    assert found[1] > found[4], "the neighbour of a good trial must have a higher prediction than that of a bad one"
    assert found[0] == pytest.approx(found[3], abs=0.2), "a trial a decade away must hardly change the prediction"


def test_nan_seeds_count_as_the_worst() -> None:
    racers = [
        Racer(values=(math.nan, 100.0, 101.0)),
        Racer(values=(99.0, 100.0, 101.0)),
        Racer(values=(-5.0, -4.0, -3.0)),
    ]
    assert scores(racers, 1.0) == pytest.approx({0: (100 + 101 - 5) / 3, 1: 100.0, 2: -4.0})


def test_single_candidate_stays() -> None:
    assert survivors(curve([None, 3.0, None]), 0.5) == [1]
    assert survivors(curve([None, None]), 0.5) == []


@pytest.mark.parametrize("rate", [None, "adam", True, 0, -1.0, math.nan])
def test_invalid_rate_has_no_position(rate: object) -> None:
    assert math.isnan(log10_rate(rate))
