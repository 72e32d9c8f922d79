"""Intervals of few seeds, the probability of improvement, and the candidates that may be the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from studies.statistics.intervals import PRIOR_DF, estimate, probability_of_improvement


def test_probability_of_improvement_is_the_share_of_pairs():
    assert probability_of_improvement([1, 2], [0, 2]) == pytest.approx(2.5 / 4)
    assert probability_of_improvement([3], [1, 2]) == 1.0
    assert probability_of_improvement([1, 2], [1, 2]) == 0.5


def test_variances_are_pooled_over_candidates_of_similar_value():
    # Two candidates of the same mean with variances 2 and 0, two seeds each: both get the mean variance, 1.
    estimates = estimate([[9.0, 11.0], [10.0, 10.0]])
    np.testing.assert_allclose(estimates.centers, [10.0, 10.0])
    np.testing.assert_allclose(estimates.df, [2, 2])
    np.testing.assert_allclose(estimates.errors, np.sqrt([1 / 2, 1 / 2]))


def test_variance_of_a_single_candidate_is_its_own():
    estimates = estimate([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(estimates.df, [2.0])
    np.testing.assert_allclose(estimates.errors, [np.sqrt(1 / 3)])
    np.testing.assert_allclose(estimates.interval(), [[2 - 4.3027 / np.sqrt(3)], [2 + 4.3027 / np.sqrt(3)]], rtol=1e-4)


def test_center_is_the_mean_for_any_number_of_seeds():
    assert estimate([[0.0, 0.0, 0.0, 0.0, 10.0], [1.0, 2.0, 6.0]]).centers.tolist() == [2.0, 3.0]


def test_pooled_variance_has_limited_degrees_of_freedom():
    estimates = estimate([[9.0, 11.0], *[[10.0, 10.0]] * 8])  # the eight other candidates have 8 degrees of freedom
    assert estimates.df[0] == PRIOR_DF + 1
    assert estimates.errors[0] == pytest.approx(np.sqrt(1 * 2 / (PRIOR_DF + 1) / 2))


def test_lower_end_allows_for_a_collapse_that_no_seed_has_shown():
    # The worst run is -1: candidates would fall by 101 and by 1. None is similar. The own variance (1) counts for
    # two degrees of freedom, and for two that of collapses: one collapse and sums of squares of 2 and 2, over those
    # that they had if all runs collapsed (2 * 101^2 and 2 * 1), and one collapse.
    estimates = estimate([[99.0, 100.0, 101.0], [-1.0, 0.0, 1.0]])
    low, high = estimates.interval()
    share = (2 + 2 + 101**2) / (2 * 101**2 + 2 + 101**2)
    variance = (2 * share * 101**2 + 2 * 1) / 4
    assert estimates.fall_errors is not None
    assert estimates.fall_errors[0] == pytest.approx(np.sqrt(variance / 3))
    assert high[0] - 100 == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(1 / 3))
    assert 100 - low[0] == pytest.approx(stats.t.ppf(0.975, 4) * np.sqrt(variance / 3))
    assert high[1] == pytest.approx(-low[1]), "the worst candidate cannot fall"


def test_many_runs_without_a_collapse_make_one_unlikely():
    few, many = ([[99.0, 100.0, 101.0]] * n + [[0.0, 0.0, 0.0]] for n in (1, 20))
    assert estimate(few).interval()[0][0] < 80
    assert estimate(many).interval()[0][0] > 95


def test_collapses_among_similar_candidates_widen_the_interval_of_a_lucky_one():
    lucky = [[10.0, 10.0, 10.0]]
    reliable = estimate([*lucky, *[[9.9, 10.0, 10.1]] * 6, [0.0, 0.0, 0.0]])
    unreliable = estimate([*lucky, *[[0.0, 10.0, 10.0]] * 6, [0.0, 0.0, 0.0]])
    assert unreliable.errors[0] > 5 * reliable.errors[0]


def test_one_exploding_seed_does_not_widen_all_intervals():
    values = [[float(i), i + 1.0, i + 2.0] for i in range(20)]
    low, high = estimate(values).interval()
    exploded_low, exploded_high = estimate([*values, [0.0, 1.0, -1e9]]).interval()
    np.testing.assert_array_less((exploded_high - exploded_low)[:20], 1.5 * (high - low))


def test_estimates_of_some_candidates_keep_what_all_have_told():
    every = estimate([[1.0, 2.0], [1.5, 2.5], [8.0, 9.0]])
    some = every.of([2, 0])
    np.testing.assert_array_equal(some.centers, [8.5, 1.5])
    np.testing.assert_array_equal(some.interval()[0], every.interval()[0][[2, 0]])


def test_variance_of_candidates_of_different_value_hardly_matters():
    estimates = estimate([[0.0, 2.0], [1.0, 1.0], [1000.0, 1060.0]])
    near = estimate([[0.0, 2.0], [1.0, 1.0]])
    assert estimates.df[0] == pytest.approx(near.df[0], rel=0.01)
    assert estimates.errors[0] == pytest.approx(near.errors[0], rel=0.01)


def test_three_equal_seeds_have_a_positive_interval():
    estimates = estimate([[500.0, 500.0, 500.0], [100.0, 120.0, 90.0]])
    low, high = estimates.interval()
    assert high[0] - low[0] > 20
    assert estimates.may_be_best().tolist() == [True, False]


def test_one_seed_per_candidate_gives_intervals_from_their_spread():
    estimates = estimate([[0.0], [8.0], [4.0]])
    assert (estimates.errors > 0).all()
    low, high = estimates.interval()
    assert (low < estimates.centers).all()
    assert (estimates.centers < high).all()


@pytest.mark.parametrize("n_seeds", [3, 5, 10])
def test_intervals_of_normal_values_have_nominal_coverage(n_seeds: int):
    rng = np.random.default_rng(n_seeds)
    truth = np.repeat(np.linspace(0, 100, 10), 2)
    covered = []
    for _ in range(300):
        values = truth[:, None] + rng.normal(size=(20, n_seeds)) * 10
        low, high = estimate(values.tolist()).interval()
        covered.append((low <= truth) & (truth <= high))
    assert 0.93 <= np.mean(covered) <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_seeds"), [(2, 3), (2, 10), (12, 3)])
def test_equal_candidates_rarely_have_a_single_winner(n: int, n_seeds: int):
    rng = np.random.default_rng(n)
    won = [estimate(rng.normal(size=(n, n_seeds)).tolist()).may_be_best().sum() == 1 for _ in range(300)]
    assert np.mean(won) <= 0.07  # 5% and the sampling error of 300 repetitions


def test_clear_winner_is_the_only_possible_best():
    estimates = estimate([[0.0, 1.0, 2.0], [50.0, 51.0, 52.0], [3.0, 4.0, 5.0]])
    assert estimates.may_be_best().tolist() == [False, True, False]
    assert estimates.probability_best()[1] > 0.99
    assert estimates.seeds_to_settle() == 3


@pytest.mark.slow
def test_best_candidate_is_nearly_always_a_possible_best():
    rng = np.random.default_rng(0)
    truth = np.linspace(0, 2, 8)
    kept = [estimate((truth[:, None] + rng.normal(size=(8, 3))).tolist()).may_be_best()[-1] for _ in range(300)]
    assert np.mean(kept) >= 0.93


@pytest.mark.parametrize(("means", "n_seeds", "expected"), [((10, 8), 2, 10), ((10, 9), 2, 34), ((10, 8), 3, 10)])
def test_seeds_to_settle_are_those_with_which_the_tie_ends(means: tuple[float, ...], n_seeds: int, expected: int):
    def candidates(n: int) -> list[np.ndarray]:
        """Values with exactly these means and a standard deviation of 2."""
        drawn = np.random.default_rng(0).normal(size=(len(means), n))
        drawn -= drawn.mean(axis=1, keepdims=True)
        return list(2.0 * drawn / drawn.std(axis=1, ddof=1, keepdims=True) + np.array(means)[:, None])

    enough = next(n for n in range(n_seeds, 200) if estimate(candidates(n)).may_be_best().sum() == 1)
    assert enough == expected
    assert estimate(candidates(n_seeds)).seeds_to_settle() == pytest.approx(enough, abs=1)


def test_seeds_to_settle_a_tie():
    close = estimate([[10.0, 12.0, 14.0], [11.0, 13.0, 15.0]])
    assert close.may_be_best().all()
    needed = close.seeds_to_settle()
    assert needed is not None
    assert 10 < needed < 100
    assert estimate([[1.0, 2.0], [1.0, 2.0]]).seeds_to_settle() is None


def test_probabilities_of_being_best_sum_to_one():
    assert estimate([[5.0, 5.0], [5.0, 5.0], [1.0, 1.0]]).probability_best().sum() == pytest.approx(1.0)


class TestManyCandidates:
    def test_grid_variances_equal_pairwise_variances(self) -> None:
        rng = np.random.default_rng(0)
        centers = np.concatenate([rng.normal(0, 10, 700), 1e4 + rng.normal(0, 10, 500)])
        values = [rng.normal(center, 3.0, 3) for center in centers]
        few, many = estimate(values[:1000]), estimate(values)
        exact = _moderated_by_pairs(values)
        assert many.errors == pytest.approx(exact, rel=1e-3)
        assert few.errors.shape == (1000,)

    def test_bound_for_many_candidates_is_conservative(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(1)
        values = [rng.normal(center, 1.0, 5) for center in rng.normal(0.0, 1.5, 150)]
        simulated = estimate(values).may_be_best()
        monkeypatch.setattr("studies.statistics.intervals._SIMULATED", 10)
        bounded = estimate(values).may_be_best()
        assert (bounded | ~simulated).all(), "the bound must keep every candidate that the simulation keeps"
        assert bounded.sum() < 150


def _moderated_by_pairs(values: list[Any]) -> Any:
    """Return the errors of `estimate` computed from all pairs of candidates."""
    import studies.statistics.intervals as module

    before = module._COMPARED
    module._COMPARED = 10**9
    try:
        return estimate(values).errors
    finally:
        module._COMPARED = before


@pytest.mark.parametrize("unit", [3.0, 10.0, 0.1])
def test_intervals_do_not_depend_on_the_unit(unit: float) -> None:
    values = np.array([[0.3, 0.3, 0.3], [0.1, 0.1, 0.05]])  # max - (max - min) is above min for some units
    low, high = estimate(values).interval()
    scaled_low, scaled_high = estimate(unit * values).interval()
    assert scaled_low / unit == pytest.approx(low)
    assert scaled_high / unit == pytest.approx(high)
