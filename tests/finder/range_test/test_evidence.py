"""Tests of the significance of an improvement of a curve: hand-computed values and several kinds of noise."""

import math

import numpy as np
import pytest

from finder.range_test.evidence import LEVEL, improvement, p_value


def test_improvement_is_the_largest_between_two_adjacent_stretches():
    # 0 0 | 3 3: a rise of 3 over sqrt(2.7/2 + 2.7/2); the variance of all five values, which are neighbours, is 2.7.
    # The fall after it is left out: with its zero in the second stretch, the improvement would be smaller.
    assert improvement(np.array([[0.0, 0.0, 3.0, 3.0, 0.0]])) == pytest.approx([3 / math.sqrt(2.7)])
    # Falls only: the least bad is 4 -> 3, from one value to one value; the variance is 7/3.
    assert improvement(np.array([[4.0, 3.0, 1.0]])) == pytest.approx([-1 / math.sqrt(7 / 3 * 2)])


def test_improvement_is_in_units_of_the_noise_where_it_is():
    # The clearest rise is 0 | 1, whose neighbours are the first five values: what follows is irrelevant.
    calm = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    for end in (10.0, 1e9):
        goodness = np.array([[*calm, *(-end * k for k in range(1, 7))]])
        assert improvement(goodness) == improvement(np.array([[*calm, *(-5.0 * k for k in range(1, 7))]]))


def test_improvement_matches_a_naive_loop():
    rng = np.random.default_rng(3)
    curves = rng.normal(size=(4, 7))
    for curve, found in zip(curves, improvement(curves), strict=True):
        around = [curve[min(max(0, i - 2), 2) :][:5].var(ddof=1) for i in range(7)]
        expected = max(
            (curve[first:end].mean() - curve[:first].mean())
            / math.sqrt(sum(around[:first]) / first**2 + sum(around[first:end]) / (end - first) ** 2)
            for first in range(1, 7)
            for end in range(first + 1, 8)
        )
        assert found == pytest.approx(expected)


def test_p_value_is_the_share_of_permutations_that_improve_as_much():
    # Of the six permutations of 1, 2, 3 the largest rises are: 1 | 3 in 1 3 2, 2 / sqrt(2) = 1.41; 1 | 2 3 in 1 2 3 and
    # 2 1 | 3 in 2 1 3, both 1.5 / sqrt(1.5) = 1.22; less than that in the other three.
    assert p_value([1.0, 3.0, 2.0], maximize=True) == pytest.approx(1 / 6, abs=0.04)
    assert p_value([1.0, 2.0, 3.0], maximize=True) == pytest.approx(3 / 6, abs=0.05)
    assert p_value([3.0, 2.0, 1.0], maximize=True) == 1.0


def test_p_value_of_negated_losses_equals_that_of_returns():
    returns = np.random.default_rng(0).normal(size=40)
    assert p_value(returns, maximize=True) == p_value(-returns, maximize=False) == p_value(returns, maximize=True)


@pytest.mark.parametrize("values", [[], [1.0], [2.0] * 20, [math.nan] * 9, [math.inf, 1.0, math.nan]])
def test_p_value_without_comparable_values_is_one(values):
    assert p_value(values, maximize=True) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "returns of a random policy"])
def test_false_positive_rate_on_noise_stays_within_the_level(noise):
    rng = np.random.default_rng(1)
    believed = 0
    for _ in range(60):
        values = rng.normal(size=100) if noise == "normal" else 8 + rng.geometric(0.07, 100)
        believed += p_value(values, maximize=True) <= LEVEL
    assert believed <= 3  # 0.6 are expected


def test_rise_in_noise_is_significant_before_a_collapse():
    rng = np.random.default_rng(2)
    rise = np.concatenate([np.zeros(50), np.full(30, 2.0), np.full(20, -2.0)]) + rng.normal(size=100)
    assert p_value(rise, maximize=True) <= LEVEL
    assert p_value(rise, maximize=False, sources=range(100)) <= LEVEL  # as a loss, the collapse is an improvement


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("collapse", ["grows", "stays"])
def test_fall_in_noise_is_significant_before_a_long_divergence(share: float, collapse: str):
    n_bad = int(100 * share)
    good = np.repeat([1.0, -1.0], [(100 - n_bad) // 2, 100 - n_bad - (100 - n_bad) // 2])
    bad = np.exp(np.linspace(0, 40, n_bad)) if collapse == "grows" else np.full(n_bad, 9.0)
    for seed in range(4):
        noise = 0.5 * np.random.default_rng(seed).normal(size=100)
        assert p_value(np.concatenate([good, bad]) + noise, maximize=False) <= LEVEL
        assert p_value(np.concatenate([np.zeros(100 - n_bad), bad]) + noise, maximize=False) > LEVEL


@pytest.mark.slow
def test_noise_that_grows_with_the_rate_is_seldom_significant():
    rng = np.random.default_rng(1)
    scale = np.geomspace(0.5, 1.5, 100)
    believed = sum(p_value(scale * rng.normal(size=100), maximize=False) <= LEVEL for _ in range(60))
    assert believed <= 6  # a few more than 0.6, as values are not exchangeable


class TestSources:
    def levels(self, n_rollouts: int, n_values: int) -> tuple[np.ndarray, list[int]]:
        """Return noise around levels that fall from rollout to rollout, as losses do at any learning rate."""
        rng = np.random.default_rng(4)
        levels = np.repeat(np.linspace(5.0, 0.0, n_rollouts), n_values)
        return levels + rng.normal(size=len(levels)), list(np.repeat(np.arange(n_rollouts), n_values))

    def test_different_levels_of_rollouts_are_not_significant(self):
        values, sources = self.levels(n_rollouts=3, n_values=100)
        assert p_value(values, maximize=False) <= LEVEL
        assert p_value(values, maximize=False, sources=sources) > 0.05

    def test_fall_within_a_rollout_is_significant(self):
        values, sources = self.levels(n_rollouts=3, n_values=100)
        values[150:200] -= 3.0
        assert p_value(values, maximize=False, sources=sources) <= LEVEL

    def test_many_rollouts_count_as_one_value_each(self):
        # 40 levels of pure noise, five values each. Counted value by value, the levels would look like a fall.
        rng = np.random.default_rng(6)
        levels = np.concatenate([np.sort(rng.normal(size=3))[::-1], rng.normal(size=37)])
        values, sources = np.repeat(levels, 5), list(np.repeat(np.arange(40), 5))
        assert p_value(values, maximize=False, sources=sources) == p_value(levels, maximize=False)
        assert p_value(values, maximize=False, sources=sources) > 10 * p_value(values, maximize=False)

    def test_few_values_of_few_rollouts_count_as_one_value_each(self):
        assert p_value([0.0, 0.0, 1.0, 1.0], maximize=True, sources=[0, 0, 1, 1]) == pytest.approx(0.5, abs=0.05)

    def test_non_finite_values_are_left_out_with_their_sources(self):
        values, sources = self.levels(n_rollouts=30, n_values=2)
        spoilt, more = [math.nan, *values, math.inf], [0, *sources, 29]
        assert p_value(spoilt, maximize=False, sources=more) == p_value(values, maximize=False, sources=sources)


def test_long_curve_is_reduced_to_means_of_stretches():
    rng = np.random.default_rng(5)
    values = rng.normal(size=2000)
    assert p_value(values, maximize=True) == p_value(values.reshape(100, 20).mean(axis=1), maximize=True)
