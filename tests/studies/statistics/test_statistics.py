"""Intervals of few seeds, the probability of improvement, and the candidates that may be the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def test_pooled_variance_has_limited_degrees_of_freedom():
    estimates = estimate([[9.0, 11.0], *[[10.0, 10.0]] * 8])  # the eight other candidates have 8 degrees of freedom
    assert estimates.df[0] == PRIOR_DF + 1
    assert estimates.errors[0] == pytest.approx(np.sqrt(1 * 2 / (PRIOR_DF + 1) / 2))


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


def test_best_candidate_is_nearly_always_a_possible_best():
    rng = np.random.default_rng(0)
    truth = np.linspace(0, 2, 8)
    kept = [estimate((truth[:, None] + rng.normal(size=(8, 3))).tolist()).may_be_best()[-1] for _ in range(300)]
    assert np.mean(kept) >= 0.93


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
