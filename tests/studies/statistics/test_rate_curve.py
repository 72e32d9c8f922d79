"""The peak of the curve of values over learning rates, and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.statistics.intervals import Estimates, estimate
from studies.statistics.rate_curve import peak, smoothing


def known(centers: list[float], error: float) -> Estimates:
    n = len(centers)
    return Estimates(centers=np.array(centers), errors=np.full(n, error), df=np.full(n, 10.0), counts=np.full(n, 3.0))


def test_smoothing_weights_fall_with_distance() -> None:
    weights = smoothing([-4.0, -3.5, -3.0])
    assert weights.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0])
    assert weights[0, 1] / weights[0, 0] == pytest.approx(math.exp(-0.5 * (0.5 / 0.3) ** 2))


def test_peak_without_noise_lies_in_the_cell_of_the_best_rate() -> None:
    found = peak(known([0.0, 1.0, 9.0, 1.0, 0.0], 1e-9), [-5.0, -4.5, -4.0, -3.5, -3.0])
    assert found.middle == pytest.approx(-4.0, abs=0.02)
    assert (found.low, found.high) == pytest.approx((-4.25, -3.75))  # halfway to the clearly worse rates


def test_peak_of_clustered_rates_may_lie_outside_the_cluster() -> None:
    close = [math.log10(rate) for rate in (7.5e-4, 8.6e-4, 1.05e-3, 1.25e-3)]  # 0.22 decades
    found = peak(estimate([[119, 30, 208], [80, 60, 100], [90, 20, 130], [110, 100, 60]]), close)
    assert found.low <= math.log10(7.5e-4) - 0.2
    assert found.high >= math.log10(1.25e-3) + 0.2


def test_interval_of_a_noisy_cluster_reaches_beyond_it() -> None:
    positions = [-5.0, -4.0, -3.05, -3.0, -2.95, -2.0]
    noisy = peak(
        estimate([[0, 1, 2], [40, 50, 60], [200, 20, 110], [150, 130, 40], [90, 160, 80], [0, 1, 3]]), positions
    )
    assert noisy.low <= -3.3 + 1e-9
    assert noisy.high >= -2.7 - 1e-9


def test_interval_extends_beyond_the_last_rate() -> None:
    found = peak(known([0.0, 1.0, 9.0], 1e-9), [-3.2, -3.1, -3.0])
    assert (
        found.high >= -3.0 + 0.28
    )  # no rate was tried beyond it, and the curve predicts about the same as at the last one
    assert found.low == pytest.approx(-3.05, abs=0.01)


def test_noise_widens_the_interval() -> None:
    found = peak(known([0.0, 8.0, 9.0, 8.0, 0.0], 4.0), [-5.0, -4.5, -4.0, -3.5, -3.0])
    assert found.low < -4.5
    assert found.high > -3.5
    assert found.middle == pytest.approx(-4.0, abs=0.1)


def test_fixed_points_are_never_the_peak() -> None:
    found = peak(known([5.0, 4.0], 1e-9), [-4.0, -3.5], fixed=[(-3.0, 100.0)])
    assert found.high < -3.25 + 1e-9  # although the smoothed curve is highest at -3


def test_peak_of_one_rate_is_that_rate() -> None:
    assert peak(known([5.0], 1.0), [-4.0]) == (-4.0, -4.0, -4.0)


def test_intervals_of_clustered_rates_cover_the_best_rate() -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(100):
        best = rng.uniform(-4.0, -2.0)
        positions = best + rng.uniform(-0.25, 0.25) + rng.uniform(-0.11, 0.11, 4)
        truth = -20 * (positions - best) ** 2
        seeds = truth[:, None] + rng.normal(scale=5.0, size=(4, 3))
        found = peak(estimate(seeds.tolist()), positions.tolist())
        held.append(found.low <= best <= found.high)
    assert np.mean(held) >= 0.9  # 0.15 with intervals that end halfway to the next rate


def test_intervals_have_their_nominal_coverage() -> None:
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


def test_peak_of_a_plateau_is_its_middle() -> None:
    """Six rates are equally good, and those beyond are not; without noise, the curve falls by hairs towards a cliff."""
    positions = [-4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5]
    found = peak(known([0.0, 500.0, 500.0, 500.0, 500.0, 500.0, 500.0, 0.0], 1e-9), positions)
    assert found.middle == pytest.approx(-2.25, abs=0.1)
    assert found.low < -2.9
    assert found.high > -1.6
    at_the_edge = peak(known([0.0, 500.0, 500.0, 500.0, 500.0, 500.0], 1e-9), positions[:6])
    assert at_the_edge.low < -2.9
    assert at_the_edge.high >= -1.5
