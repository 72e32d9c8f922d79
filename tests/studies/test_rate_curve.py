"""Where the curve of values over learning rates is highest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.rate_curve import peak, smoothing
from studies.statistics import Estimates, estimate


def known(centers: list[float], error: float) -> Estimates:
    n = len(centers)
    return Estimates(centers=np.array(centers), errors=np.full(n, error), df=np.full(n, 10.0), counts=np.full(n, 3.0))


def test_what_is_nearer_says_more() -> None:
    weights = smoothing([-4.0, -3.5, -3.0])
    assert weights.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0])
    assert weights[0, 1] / weights[0, 0] == pytest.approx(math.exp(-0.5 * (0.5 / 0.3) ** 2))


def test_without_noise_the_peak_is_within_the_cell_of_the_best_rate() -> None:
    found = peak(known([0.0, 1.0, 9.0, 1.0, 0.0], 1e-9), [-5.0, -4.5, -4.0, -3.5, -3.0])
    assert found.middle == pytest.approx(-4.0, abs=0.02)
    assert (found.low, found.high) == pytest.approx((-4.2375, -3.7625), abs=0.01)  # 95% of half a decade


def test_noise_widens_it() -> None:
    found = peak(known([0.0, 8.0, 9.0, 8.0, 0.0], 4.0), [-5.0, -4.5, -4.0, -3.5, -3.0])
    assert found.low < -4.5
    assert found.high > -3.5
    assert found.middle == pytest.approx(-4.0, abs=0.1)


def test_what_is_only_part_of_the_curve_is_never_its_peak() -> None:
    found = peak(known([5.0, 4.0], 1e-9), [-4.0, -3.5], fixed=[(-3.0, 100.0)])
    assert found.high < -3.25 + 1e-9  # although the smoothed curve is highest at -3


def test_one_rate_is_where_it_is() -> None:
    assert peak(known([5.0], 1.0), [-4.0]) == (-4.0, -4.0, -4.0)


def test_intervals_hold_the_best_rate_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    positions = [-5 + 0.5 * i for i in range(9)]
    held = []
    for _ in range(150):
        best = rng.uniform(-4.2, -1.8)
        truth = -20 * (np.array(positions) - best) ** 2
        seeds = truth[:, None] + rng.normal(scale=5.0, size=(9, 3))
        found = peak(estimate(seeds.tolist()), positions)
        held.append(found.low <= best <= found.high)
    assert 0.9 <= np.mean(held) <= 1.0
