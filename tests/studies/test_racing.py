"""Who stays in a race, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.drift import drift
from studies.racing import Racer, scores, staying
from studies.rate_curve import log10_rate


def curve(values: list[float | None], group: str = "adam", spread: float = 0.1) -> list[Racer]:
    """Racers half a decade apart from 1e-4 on, three seeds each; None is out of the race."""
    return [
        Racer(
            values=() if value is None else (value - spread, value, value + spread), group=group, position=-4 + 0.5 * i
        )
        for i, value in enumerate(values)
    ]


def test_the_best_rate_falls_as_runs_get_longer() -> None:
    assert drift(0.1) == pytest.approx((-0.75, 0.5))
    assert drift(1.0) == (0.0, 0.0)
    assert drift(10.0) == pytest.approx((0.75, 0.5))  # the run that follows is shorter


def test_scores_are_smoothed_over_neighbouring_rates() -> None:
    # Half a decade away exp(-0.5 (0.5 / 0.3)^2) = 0.249 as much, a decade away 0.004: (8 * 0.249) / 1.502 and so on.
    found = scores(curve([0.0, 0.0, 8.0, 0.0]), 1.0)
    assert [found[i] for i in range(4)] == pytest.approx([0.025, 1.328, 5.324, 1.592], abs=1e-3)


def test_scores_are_read_where_the_curve_will_be() -> None:
    # After a tenth of the run it still moves by 0.75 decades: 1e-4 is worth what is halfway from 10^-3.5 to 10^-3 now.
    found = scores(curve([0.0, 0.0, 8.0, 0.0]), 0.1)
    now = [0.025, 1.328, 5.324, 1.592]
    later = [(now[1] + now[2]) / 2, (now[2] + now[3]) / 2, now[3], now[3]]
    assert [found[i] for i in range(4)] == pytest.approx(later, abs=1e-3)


def test_a_neighbour_that_is_out_counts_as_the_worst() -> None:
    there = scores(curve([2.0, None, 8.0]), 1.0)
    near, far = math.exp(-0.5 * (0.5 / 0.3) ** 2), math.exp(-0.5 * (1 / 0.3) ** 2)
    whole = 1 + near + far
    assert there == pytest.approx({0: (2 + 2 * near + 8 * far) / whole, 2: (8 + 2 * near + 2 * far) / whole})


def test_candidates_without_rates_stand_for_themselves() -> None:
    racers = [Racer(values=(value,)) for value in (1.0, 5.0, 3.0)]
    assert scores(racers, 0.1) == {0: 1.0, 1: 5.0, 2: 3.0}


def test_who_is_told_from_the_best_leaves_and_lower_rates_may_still_become_it() -> None:
    values = [0.0, 1.0, 2.0, 50.0, 100.0, 3.0]  # the best is 1e-2
    assert staying(curve(values), 1.0) == [4]
    # With half of the run ahead it moves by 0.23 decades, give or take two times 0.15; the next one stays too.
    assert staying(curve(values), 0.5) == [3, 4]
    assert staying(curve(values), 0.3) == [3, 4]  # 0.39 + 2 * 0.26
    assert staying(curve(values), 0.2) == [2, 3, 4]  # 0.52 + 2 * 0.35
    assert staying(curve(values), 0.1) == [1, 2, 3, 4]  # 0.75 + 2 * 0.5


def test_rates_of_another_optimizer_are_no_neighbours() -> None:
    racers = [*curve([0.0, 0.0, 90.0]), *curve([0.0, 100.0, 0.0], "sgd")]
    assert staying(racers, 0.5) == [3, 4]


def test_nobody_leaves_by_noise() -> None:
    rng = np.random.default_rng(0)
    left = 0
    for _ in range(200):
        racers = [Racer(values=tuple(rng.normal(size=3))) for _ in range(12)]
        left += len(racers) - len(staying(racers, 0.5))
    assert left / (200 * 12) < 0.02


def test_seeds_that_are_no_numbers_count_as_the_worst() -> None:
    racers = [
        Racer(values=(math.nan, 100.0, 101.0)),
        Racer(values=(99.0, 100.0, 101.0)),
        Racer(values=(-5.0, -4.0, -3.0)),
    ]
    assert scores(racers, 1.0) == pytest.approx({0: (100 + 101 - 5) / 3, 1: 100.0, 2: -4.0})


def test_one_that_is_alone_stays() -> None:
    assert staying(curve([None, 3.0, None]), 0.5) == [1]
    assert staying(curve([None, None]), 0.5) == []


@pytest.mark.parametrize("rate", [None, "adam", True, 0, -1.0, math.nan])
def test_what_is_no_rate_has_no_position(rate: object) -> None:
    assert math.isnan(log10_rate(rate))
