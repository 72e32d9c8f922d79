"""Tests of the suggestion rules: hand-computed curves, invariants and invalid input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder.range_test.curve import changes, smooth
from finder.range_test.suggestion import RULES, Suggestion, minimum, slide, steepest, valley

NAN, INF = math.nan, math.inf
ALL = pytest.mark.parametrize("rule", sorted(RULES))

# One point a decade. A loss that falls slowly, then fast, then slowly, and diverges.
RATES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0]
LOSSES = [1.00, 0.95, 0.85, 0.45, 0.35, 0.80, 9.00]


# --- smooth and changes


def test_smooth_averages_the_current_and_earlier_values():
    # (1), (1 + 2) / 2, (1 + 2 + 6) / 3, (2 + 6 + 4) / 3
    np.testing.assert_allclose(smooth([1.0, 2.0, 6.0, 4.0], 3), [1.0, 1.5, 3.0, 4.0])


def test_smooth_leaves_out_non_finite_values():
    # At the last point: (2 + 4) / 2, the infinity between them left out.
    np.testing.assert_array_equal(smooth([2.0, INF, 4.0], 3), [2.0, NAN, 3.0])
    np.testing.assert_array_equal(smooth([NAN, 2.0], 2), [NAN, 2.0])


def test_smooth_with_a_window_of_one_changes_nothing():
    values = [0.1, 0.7, -3.0]
    np.testing.assert_array_equal(smooth(values, 1), values)
    assert smooth([], 3).shape == (0,)


def test_smooth_with_a_window_longer_than_the_curve():
    np.testing.assert_allclose(smooth([1.0, 2.0, 6.0], 100), [1.0, 1.5, 3.0])


def test_smooth_does_not_overflow():
    np.testing.assert_allclose(smooth([1.5e308, 1.5e308], 2), [1.5e308, 1.5e308])


@settings(deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(NAN), min_size=1, max_size=30),
    sma=st.integers(1, 12),
    at=st.integers(0, 29),
)
def test_smooth_uses_no_later_values(values, sma, at):
    at = min(at, len(values) - 1)
    changed = [*values[: at + 1], *[9e9] * (len(values) - at - 1)]
    np.testing.assert_array_equal(smooth(values, sma)[: at + 1], smooth(changed, sma)[: at + 1])


@settings(deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF]), min_size=1, max_size=30), sma=st.integers(1, 12)
)
def test_smooth_matches_a_naive_loop(values, sma):
    expected = []
    for i, value in enumerate(values):
        window = [v for v in values[max(0, i - sma + 1) : i + 1] if math.isfinite(v)]
        expected.append(sum(window) / len(window) if math.isfinite(value) else NAN)
    np.testing.assert_allclose(smooth(values, sma), expected, rtol=1e-9, atol=1e-6)


def test_changes_are_per_decade():
    # Half a decade from 1 to 2: 2 a decade; then one decade from 2 to 5: 3; then two decades from 5 to 4: -0.5.
    rates = [1e-4, 1e-4 * math.sqrt(10.0), 1e-3 * math.sqrt(10.0), 1e-1 * math.sqrt(10.0)]
    np.testing.assert_allclose(changes(rates, [1.0, 2.0, 5.0, 4.0]), [NAN, 2.0, 3.0, -0.5])


def test_changes_bridge_non_finite_values():
    # From 1 to 5 over the two decades around the NaN: 2 a decade.
    np.testing.assert_allclose(changes([1e-4, 1e-3, 1e-2], [1.0, NAN, 5.0]), [NAN, NAN, 2.0])


def test_changes_of_the_smoothed_values():
    # Smoothed by 2: 0, 1, 3, 5.
    np.testing.assert_allclose(changes([1e-4, 1e-3, 1e-2, 1e-1], [0.0, 2.0, 4.0, 6.0], sma=2), [NAN, 1.0, 2.0, 2.0])


# --- the rules, worked out by hand on LOSSES


def test_steepest_suggests_the_fastest_fall():
    # Changes: -0.05, -0.10, -0.40, -0.10, ...: the steepest fall arrives at 1e-3.
    suggestion = steepest(RATES, LOSSES, maximize=False)
    assert (suggestion.rate, suggestion.index, suggestion.rule) == (1e-3, 3, "steepest")
    assert "losses fall fastest here, by 0.4 per decade" in suggestion.reason


def test_steepest_counts_decades_not_points():
    # The fall of 0.3 over 0.1 decades (3 a decade) beats the fall of 0.5 over a whole one.
    rates = [1e-4, 1e-3, 1e-3 * 10**0.1, 1e-2]
    assert steepest(rates, [1.0, 0.5, 0.2, 0.1], maximize=False).index == 2


def test_steepest_ignores_recoveries_after_the_best():
    # 900 -> 100 is the steepest fall of all, but of a curve that has diverged.
    rates = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    assert steepest(rates, [1.0, 0.9, 0.4, 0.3, 900.0, 100.0], maximize=False).index == 2


def test_steepest_compares_means_of_full_stretches():
    # Means of two before and from each place: 0 -> 1/2 -> 3 -> 5 -> 11/2; from the third place on they rise by 3,
    # from the fourth by 4.5, from the fifth by 2.5. (The first two values have no two before them.)
    rates = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    suggestion = steepest(rates, [0.0, 0.0, 1.0, 5.0, 5.0, 6.0, 6.0], maximize=True, sma=2)
    assert (suggestion.rate, suggestion.index) == (1e-4, 3)
    assert "returns rise fastest here, by 2.25 per decade" in suggestion.reason  # 4.5 over two decades


def test_steepest_never_suggests_the_first_or_last_rates():
    first = steepest(RATES, [9.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5], maximize=False)
    assert first.rate is None
    assert "at the first rates, up to 1e-05: test smaller ones" in first.reason
    last = steepest(RATES, [9.0, 8.9, 8.8, 8.7, 8.6, 8.5, 0.5], maximize=False)
    assert last.rate is None
    assert "at the last rates, from 1 on" in last.reason


def test_steepest_needs_two_full_stretches():
    assert "means of 4 need at least 8" in steepest(RATES, LOSSES, maximize=False, sma=4).reason
    with pytest.raises(ValueError, match="sma must be >= 1"):
        steepest(RATES, LOSSES, maximize=False, sma=0)


def test_valley_suggests_two_thirds_of_the_longest_improvement():
    # Improves from 1e-6 to 1e-2, four decades; two thirds are 2.67 decades: 10^-3.33, the last point before is 1e-4.
    suggestion = valley(RATES, LOSSES, maximize=False)
    assert (suggestion.rate, suggestion.index) == (1e-4, 2)


def test_valley_takes_a_point_exactly_two_thirds_along():
    # Three decades, two thirds are two: 1e-3.
    assert valley([1e-5, 1e-4, 1e-3, 1e-2], [4.0, 3.0, 2.0, 1.0], maximize=False).rate == 1e-3


@pytest.mark.parametrize(("start", "end"), [(1e-5, 1e-3), (1e-4, 1e-2), (1e-7, 1.0), (3e-6, 0.7)])
def test_valley_is_robust_to_rounding(start, end):
    # Four evenly spaced points: the third is two thirds along, though the first two pairs round to just past it.
    rates = start * (end / start) ** (np.arange(4) / 3)
    assert valley(rates, [4.0, 3.0, 2.0, 1.0], maximize=False).index == 2


def test_valley_ignores_a_longer_plateau():
    # 5, 4, 3 improves; the five 9s do not. Two thirds of two decades from 1e-8: 10^-6.67, so 1e-7.
    rates = np.logspace(-8, -1, 8)
    assert valley(rates, [5.0, 4.0, 3.0, 9.0, 9.0, 9.0, 9.0, 9.0], maximize=False).index == 1


def test_valley_may_suggest_a_plateau_within_the_stretch():
    # Improves 3, 2, 1 over five decades with a plateau between; 3.33 decades along is just past 1e-3.
    assert valley(RATES[:6], [3.0, 2.0, 2.0, 2.0, 2.0, 1.0], maximize=False).rate == 1e-3


def test_valley_tolerates_a_single_bad_point():
    # Without the point at 1e-4 it improves over 5 points, from 1e-6 to 1e-1 (6, 5, 4, 3, 2); 3.33 decades along, the
    # last point at or before 10^-2.67 is 1e-3. A rule that compared neighbours alone would find 1e-3 to 1e-1.
    rates = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    assert valley(rates, [6.0, 5.0, 7.0, 4.0, 3.0, 2.0], maximize=False).rate == 1e-3


def test_valley_prefers_the_stretch_with_the_better_end():
    # 3, 2, 1 and 9, 8, 7 are both three long; the first ends better. 2/3 of its two decades: 10^-4.67.
    rates = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    suggestion = valley(rates, [3.0, 2.0, 1.0, 9.0, 8.0, 7.0], maximize=False)
    assert suggestion.rate == 1e-5


def test_minimum_suggests_a_tenth_of_the_best_rate():
    # The least loss is at 1e-2.
    suggestion = minimum(RATES, LOSSES, maximize=False)
    assert suggestion.rate == pytest.approx(1e-3)
    assert suggestion.index == 4


def test_minimum_reports_a_suggestion_outside_the_tested_rates():
    suggestion = minimum([1e-3, 2e-3, 4e-3, 8e-3], [4.0, 3.0, 2.0, 1.0], maximize=False)
    assert suggestion.rate == pytest.approx(8e-4)
    assert "below the tested rates" in suggestion.reason
    assert "larger ones" in suggestion.reason


def test_slide_suggests_a_third_of_the_last_stable_rate():
    # Improvement 1.00 - 0.35 = 0.65, half of it 0.325. At 1e-1 the loss is 0.45 above the best: diverged, and so after.
    # The last stable rate is 1e-2; a third of it.
    suggestion = slide(RATES, LOSSES, maximize=False)
    assert suggestion.rate == pytest.approx(1e-2 / 3.0)
    assert suggestion.index == 4


def test_slide_uses_threshold_and_scale():
    # 0.45 / 0.65 = 0.69: with a threshold of 0.7, 1e-1 is still stable.
    assert slide(RATES, LOSSES, maximize=False, threshold=0.7, scale=1.0).rate == 1e-1
    assert slide(RATES, LOSSES, maximize=False, threshold=0.69, scale=0.1).rate == pytest.approx(1e-3)


@pytest.mark.parametrize("end", [NAN, INF, -INF, 1e308])
def test_slide_with_non_finite_divergence(end):
    suggestion = slide(RATES[:5], [1.0, 0.9, 0.5, 0.4, end], maximize=False, scale=1.0)
    assert suggestion.rate == 1e-3


def test_slide_ignores_a_spike():
    # The loss recovers from the spike at 1e-4, so the last stable rate is 1e-2.
    suggestion = slide([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1], [1.0, 0.8, 3.0, 0.5, 0.4, NAN], maximize=False, scale=1.0)
    assert suggestion.rate == 1e-2


# --- properties of all rules


@ALL
def test_returns_and_negated_losses_give_the_same_suggestion(rule):
    down = RULES[rule](RATES, LOSSES, maximize=False)
    up = RULES[rule](RATES, [-loss for loss in LOSSES], maximize=True)
    assert down.rate is not None
    assert (up.rate, up.index) == (down.rate, down.index)


curves = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF, -INF, 0.0, 1e308]), max_size=25)


@ALL
@settings(deadline=None)
@given(values=curves, maximize=st.booleans(), decades=st.floats(0.01, 1.0))
def test_suggestion_is_at_a_finite_point_or_has_a_reason(rule, values, maximize, decades):
    rates = 1e-6 * 10 ** (decades * np.arange(len(values)))
    suggestion = RULES[rule](rates, values, maximize=maximize)
    assert isinstance(suggestion, Suggestion)
    assert suggestion.rule == rule
    assert suggestion.reason
    if suggestion.rate is None:
        assert suggestion.index is None
    else:
        assert math.isfinite(values[suggestion.index])
        assert 0.0 < suggestion.rate <= rates[suggestion.index]


@ALL
@given(scale=st.sampled_from([0.5, 2.0, 1024.0]), shift=st.sampled_from([-64.0, 0.0, 16.0]))
def test_suggestion_is_invariant_to_scale_and_shift_of_values(rule, scale, shift):
    plain = RULES[rule](RATES, LOSSES, maximize=False)
    other = RULES[rule](RATES, [scale * loss + shift for loss in LOSSES], maximize=False)
    assert other.index == plain.index


@ALL
def test_leading_and_trailing_nan_change_nothing(rule):
    rates = [1e-8, 1e-7, *RATES, 1e1, 1e2]
    padded = RULES[rule](rates, [NAN, INF, *LOSSES, NAN, NAN], maximize=False)
    assert padded.rate == RULES[rule](RATES, LOSSES, maximize=False).rate


@ALL
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no points"),
        ([NAN] * 5, "no value is finite"),
        ([INF, -INF, NAN, NAN, NAN], "no value is finite"),
        ([1.0, 0.5, 0.2, NAN, NAN], "only 3 finite values"),
        ([0.3] * 6, "flat at 0.3"),
        ([0.0] * 6, "flat at 0"),
        ([500.0, 500.0 + 1e-12, 500.0, 500.0, 500.0], "flat at 500"),
    ],
)
def test_curve_without_information_gives_no_suggestion(rule, values, reason):
    for maximize in (True, False):
        suggestion = RULES[rule](RATES[: len(values)], values, maximize=maximize)
        assert suggestion.rate is None
        assert suggestion.index is None
        assert reason in suggestion.reason


@ALL
def test_curve_without_improvement_gives_no_suggestion(rule):
    suggestion = RULES[rule](RATES, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], maximize=False)
    assert suggestion.rate is None
    expected = "no three points" if rule == "valley" else "smallest rate, 1e-06"
    assert expected in suggestion.reason


def test_slide_without_divergence_gives_no_suggestion():
    suggestion = slide(RATES, [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], maximize=False)
    assert suggestion.rate is None
    assert "do not diverge" in suggestion.reason


@ALL
@pytest.mark.parametrize(
    ("rates", "values", "message"),
    [
        ([1e-3, 1e-2], [1.0], "2 rates and 1 values"),
        ([1e-3, 1e-4], [1.0, 2.0], "must ascend, got 0.001 before 0.0001"),
        ([1e-3, 1e-3], [1.0, 2.0], "must ascend"),
        ([0.0, 1e-3], [1.0, 2.0], "> 0, got 0.0"),
        ([1e-3, NAN], [1.0, 2.0], "finite and > 0, got nan"),
        ([[1e-3]], [1.0], r"rates must have the shape \[M\]"),
        ([1e-3], [[1.0]], r"values must have the shape \[M\]"),
    ],
)
def test_invalid_curve_is_refused(rule, rates, values, message):
    with pytest.raises(ValueError, match=message):
        RULES[rule](rates, values, maximize=False)


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ValueError, match="sma must be >= 1"):
        smooth([1.0], 0)
    with pytest.raises(ValueError, match="threshold"):
        slide(RATES, LOSSES, maximize=False, threshold=0.0)
    with pytest.raises(ValueError, match="scale"):
        slide(RATES, LOSSES, maximize=False, scale=1.5)
