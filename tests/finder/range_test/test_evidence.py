"""Tests of the significance of an improvement of a curve: hand-computed values and several kinds of noise."""

import math

import numpy as np
import pytest

from finder.range_test.evidence import LEVEL, improvement, p_value


def test_improvement_is_the_largest_between_two_adjacent_stretches():
    # 0 0 | 3 3: a rise of 3 over sqrt(1/2 + 1/2). The fall after it is left out: with its zero in the second stretch,
    # the improvement would be (2 - 0) / sqrt(1/2 + 1/3).
    # The standard deviation of 0 0 3 3 is 1.5.
    assert improvement(np.array([[0.0, 0.0, 3.0, 3.0, 0.0]])) == pytest.approx(np.array([[3.0, 2.0]]))
    # Falls only: the least bad is 4 -> 3, from one value to one value: -1 / sqrt(2). In standard deviations it is
    # 4 -> 3 1: -2 / sqrt(1 + 1/2), with a standard deviation of sqrt(14) / 3.
    falls = improvement(np.array([[4.0, 3.0, 1.0]]))
    assert falls == pytest.approx(np.array([[-1 / math.sqrt(2), -2 / math.sqrt(1.5) / (math.sqrt(14) / 3)]]))


def test_improvement_matches_a_naive_loop():
    rng = np.random.default_rng(3)
    curves = rng.normal(size=(4, 7))
    for curve, found in zip(curves, improvement(curves), strict=True):
        splits = [(first, end) for first in range(1, 7) for end in range(first + 1, 8)]
        rises = {
            (first, end): (curve[first:end].mean() - curve[:first].mean()) / math.sqrt(1 / first + 1 / (end - first))
            for first, end in splits
        }
        in_deviations = [rise / curve[:end].std() for (_, end), rise in rises.items()]
        assert found == pytest.approx([max(rises.values()), max(in_deviations)])


def test_p_value_is_the_share_of_permutations_that_improve_as_much():
    # Of the six permutations of 1, 2, 3 the largest rises are: 1 | 3 in 1 3 2, 2 / sqrt(2) = 1.41; 1 | 2 3 in 1 2 3 and
    # 2 1 | 3 in 2 1 3, both 1.5 / sqrt(1.5) = 1.22; less than that in the other three. In standard deviations these
    # three are 1.5, and the others less. The p-value is twice the smaller one.
    assert p_value([1.0, 3.0, 2.0], maximize=True) == pytest.approx(2 * 1 / 6, abs=0.06)
    assert p_value([1.0, 2.0, 3.0], maximize=True) == pytest.approx(2 * 3 / 6, abs=0.1)
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


@pytest.mark.parametrize(
    ("share", "collapse"), [(0.25, "grows"), (0.5, "grows"), (0.75, "grows"), (0.25, "stays"), (0.5, "stays")]
)
def test_fall_in_noise_is_significant_however_many_rates_diverge(share: float, collapse: str):
    rng = np.random.default_rng(3)
    n_bad = int(100 * share)
    good = np.repeat([1.0, -1.0], [(100 - n_bad) // 2, 100 - n_bad - (100 - n_bad) // 2])
    bad = np.exp(np.linspace(0, 40, n_bad)) if collapse == "grows" else np.full(n_bad, 9.0)
    losses = np.concatenate([good, bad]) + 0.5 * rng.normal(size=100)
    assert p_value(losses, maximize=False) <= LEVEL
    flat = np.concatenate([np.zeros(100 - n_bad), bad]) + 0.5 * rng.normal(size=100)
    assert p_value(flat, maximize=False) > LEVEL


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
        # Of the two orders of 0, 1 one rises.
        assert p_value([0.0, 0.0, 1.0, 1.0], maximize=True, sources=[0, 0, 1, 1]) == pytest.approx(1.0, abs=0.1)

    def test_non_finite_values_are_left_out_with_their_sources(self):
        values, sources = self.levels(n_rollouts=30, n_values=2)
        spoilt, more = [math.nan, *values, math.inf], [0, *sources, 29]
        assert p_value(spoilt, maximize=False, sources=more) == p_value(values, maximize=False, sources=sources)


def test_long_curve_is_reduced_to_means_of_stretches():
    rng = np.random.default_rng(5)
    values = rng.normal(size=2000)
    assert p_value(values, maximize=True) == p_value(values.reshape(100, 20).mean(axis=1), maximize=True)
