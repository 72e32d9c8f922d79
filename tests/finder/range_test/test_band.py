"""Tests of the band of several range tests, and of the figures that show it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from range_curves import range_test_of

from finder.range_test.band import N_POINTS, band_of
from finder.range_test.pooling import pool_results
from finder.range_test.suggestion import Suggestion
from studies.figures.range_tests import RangeTest, plot_range_tests

RATES = [1e-4, 1e-3, 1e-2]


def test_band_goes_from_the_lowest_to_the_highest_run_around_their_mean():
    band = band_of([(RATES, [4.0, 2.0, 0.0]), (RATES, [1.0, 2.0, 6.0]), (RATES, [1.0, 2.0, 3.0])])
    assert band is not None
    assert len(band.rates) == N_POINTS
    assert (band.rates[0], band.rates[-1]) == (1e-4, 1e-2)
    assert (band.low[0], band.mean[0], band.high[0]) == (1.0, 2.0, 4.0)
    assert (band.low[-1], band.mean[-1], band.high[-1]) == (0.0, 3.0, 6.0)
    # Between two rates, values are linear over the logarithm: a quarter of a decade after 1e-4.
    quarter = float(np.interp(-3.75, np.log10(band.rates), band.mean))
    assert quarter == pytest.approx((3.5 + 1.25 + 1.25) / 3, rel=1e-3)


def test_band_covers_only_the_rates_of_all_runs():
    band = band_of([(RATES, [3.0, 2.0, 1.0]), (RATES[:2], [3.0, 2.0]), (RATES[1:], [2.0, 1.0])])
    assert band is None  # 1e-3 alone is common to all
    band = band_of([(RATES, [3.0, 2.0, 1.0]), (RATES[:2], [1.0, 2.0])])
    assert band is not None
    assert (band.rates[0], band.rates[-1]) == (1e-4, 1e-3)


def test_long_curves_are_averaged_and_each_mean_is_at_the_middle_of_its_rates():
    rates = np.geomspace(1e-4, 1e-2, 21)  # means of two
    band = band_of([(rates, np.arange(21.0)), (rates, np.arange(21.0))])
    assert band is not None
    assert band.mean[0] == 0.5
    assert band.rates[0] == pytest.approx(10**-3.95, rel=1e-5)
    assert band.mean[-1] == 19.5


@pytest.mark.parametrize("curves", [[], [(RATES, [1.0, 2.0, 3.0])], [(RATES, [1.0] * 3), ([], [])]])
def test_fewer_than_two_curves_have_no_band(curves: list):
    assert band_of(curves) is None


def test_values_that_are_not_finite_are_left_out():
    band = band_of([(RATES, [3.0, math.nan, 1.0]), (RATES, [3.0, 2.0, math.inf])])
    assert band is not None
    assert band.rates[-1] == 1e-3
    assert band.low == band.high  # 3 to 2 at 1e-3 in both


def test_figure_of_several_runs_has_their_band_and_the_interval():
    pooled = pool_results([range_test_of([3.0, 2.0, 1.0], RATES), range_test_of([5.0, 4.0, 3.0], RATES)], [0, 1])
    figure = replace(pooled, suggestion=Suggestion(1e-3, 1, "steepest", ""), low=5e-4, high=2e-3).plot()
    points, high, low, mean, legend = figure.data
    assert list(points.y) == [4.0, 3.0, 2.0]
    assert (low.y[0], mean.y[0], high.y[0]) == (3.0, 4.0, 5.0)
    assert low.fill == "tonexty"
    assert legend.name == "band: worst to best seed"
    line, interval = figure.layout.shapes
    assert line.x0 == 1e-3
    assert (interval.x0, interval.x1) == (5e-4, 2e-3)


def test_figure_of_a_recorded_test_has_its_band_in_place_of_its_points():
    band = band_of([(RATES, [3.0, 2.0, 1.0]), (RATES, [5.0, 4.0, 3.0])])
    test = RangeTest("all", "loss", tuple(RATES), (4.0, 3.0, 2.0), 1e-3, "steepest", band, 5e-4, 2e-3)
    assert [trace.name for trace in plot_range_tests([test]).data if trace.name] == [
        "all, mean of the runs",
        "band: worst to best seed",
    ]
    alone = plot_range_tests([test._replace(band=None, low=math.nan, high=math.nan)])
    assert [list(trace.y) for trace in alone.data] == [[4.0, 3.0, 2.0]]
