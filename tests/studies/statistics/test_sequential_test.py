"""Sequential test: undecided candidates, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from studies.statistics.racing import Racer
from studies.statistics.sequential_test import undecided


def curve(values: list[float | None], group: str = "adam", spread: float = 0.1) -> list[Racer]:
    """Return racers at steps of half a decade from 1e-4, with three seeds each; None has left the race."""
    return [
        Racer(
            values=() if value is None else (value - spread, value, value + spread), group=group, position=-4 + 0.5 * i
        )
        for i, value in enumerate(values)
    ]


def test_significantly_worse_rates_leave_and_lower_rates_stay_early_on() -> None:
    values = [0.0, 1.0, 2.0, 50.0, 100.0, 3.0]  # the best is 1e-2
    assert undecided(curve(values), 1.0) == [4]
    # With half of the run ahead the best rate moves by 0.23 ± 2 * 0.15 decades; the next lower rate stays too.
    assert undecided(curve(values), 0.5) == [3, 4]
    assert undecided(curve(values), 0.3) == [3, 4]  # 0.39 + 2 * 0.26
    assert undecided(curve(values), 0.2) == [2, 3, 4]  # 0.52 + 2 * 0.35
    assert undecided(curve(values), 0.1) == [1, 2, 3, 4]  # 0.75 + 2 * 0.5


def test_rates_of_another_optimizer_are_not_neighbours() -> None:
    racers = [*curve([0.0, 0.0, 90.0]), *curve([0.0, 100.0, 0.0], "sgd")]
    assert undecided(racers, 0.5) == [3, 4]


@pytest.mark.slow
def test_equal_candidates_rarely_leave() -> None:
    rng = np.random.default_rng(0)
    left = 0
    for _ in range(200):
        racers = [Racer(values=tuple(rng.normal(size=3))) for _ in range(12)]
        left += len(racers) - len(undecided(racers, 0.5))
    assert left / (200 * 12) < 0.02


def test_single_candidate_stays() -> None:
    assert undecided(curve([None, 3.0, None]), 0.5) == [1]
    assert undecided(curve([None, None]), 0.5) == []
