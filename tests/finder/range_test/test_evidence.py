"""Whether a curve improves by more than its own noise: hand-worked numbers, and noise of several kinds."""

import math

import numpy as np
import pytest

from finder.range_test.evidence import LEVEL, improvement, p_value


def test_improvement_is_that_of_the_clearest_two_stretches():
    # 0 0 | 3 3: a rise of 3 over sqrt(1/2 + 1/2). What comes after, a fall, is left out: with one zero in the second
    # stretch it is (2 - 0) / sqrt(1/2 + 1/3).
    assert improvement(np.array([[0.0, 0.0, 3.0, 3.0, 0.0]])) == pytest.approx([3.0])
    # Falls only: the least bad is 4 -> 3, from one value to one value: -1 / sqrt(2).
    assert improvement(np.array([[4.0, 3.0, 1.0]])) == pytest.approx([-1 / math.sqrt(2)])


def test_improvement_against_a_naive_loop():
    rng = np.random.default_rng(3)
    curves = rng.normal(size=(4, 7))
    for curve, found in zip(curves, improvement(curves), strict=True):
        expected = max(
            (curve[first:end].mean() - curve[:first].mean()) / math.sqrt(1 / first + 1 / (end - first))
            for first in range(1, 7)
            for end in range(first + 1, 8)
        )
        assert found == pytest.approx(expected)


def test_the_share_of_orders_that_improve_as_much():
    # Of the six orders of 1, 2, 3 the clearest rises are: 1 | 3 in 1 3 2, 2 / sqrt(2) = 1.41; 1 | 2 3 in 1 2 3 and
    # 2 1 | 3 in 2 1 3, both 1.5 / sqrt(1.5) = 1.22; less than that in the other three.
    assert p_value([1.0, 3.0, 2.0], maximize=True) == pytest.approx(1 / 6, abs=0.04)
    assert p_value([1.0, 2.0, 3.0], maximize=True) == pytest.approx(3 / 6, abs=0.05)
    assert p_value([3.0, 2.0, 1.0], maximize=True) == 1.0


def test_losses_are_returns_upside_down_and_the_answer_stays_the_same():
    returns = np.random.default_rng(0).normal(size=40)
    assert p_value(returns, maximize=True) == p_value(-returns, maximize=False) == p_value(returns, maximize=True)


@pytest.mark.parametrize("values", [[], [1.0], [2.0] * 20, [math.nan] * 9, [math.inf, 1.0, math.nan]])
def test_nothing_is_believed_where_there_is_nothing_to_compare(values):
    assert p_value(values, maximize=True) == 1.0


@pytest.mark.parametrize("noise", ["normal", "returns of a random policy"])
def test_noise_is_believed_about_as_often_as_the_level_says(noise):
    rng = np.random.default_rng(1)
    believed = 0
    for _ in range(60):
        values = rng.normal(size=100) if noise == "normal" else 8 + rng.geometric(0.07, 100)
        believed += p_value(values, maximize=True) <= LEVEL
    assert believed <= 3  # 0.6 are expected


def test_a_rise_in_noise_is_believed_also_when_the_curve_collapses_after_it():
    rng = np.random.default_rng(2)
    rise = np.concatenate([np.zeros(50), np.full(30, 2.0), np.full(20, -2.0)]) + rng.normal(size=100)
    assert p_value(rise, maximize=True) <= LEVEL
    assert p_value(rise, maximize=False, sources=range(100)) <= LEVEL  # the collapse is one of losses that fall


class TestSources:
    def levels(self, n_rollouts: int, n_values: int) -> tuple[np.ndarray, list[int]]:
        """Noise around levels that fall from rollout to rollout, as losses do without any help from the rate."""
        rng = np.random.default_rng(4)
        levels = np.repeat(np.linspace(5.0, 0.0, n_rollouts), n_values)
        return levels + rng.normal(size=len(levels)), list(np.repeat(np.arange(n_rollouts), n_values))

    def test_the_level_of_a_rollout_is_no_effect_of_the_rate(self):
        values, sources = self.levels(n_rollouts=3, n_values=100)
        assert p_value(values, maximize=False) <= LEVEL
        assert p_value(values, maximize=False, sources=sources) > 0.05

    def test_a_fall_within_a_rollout_is(self):
        values, sources = self.levels(n_rollouts=3, n_values=100)
        values[150:200] -= 3.0
        assert p_value(values, maximize=False, sources=sources) <= LEVEL

    def test_many_rollouts_are_one_value_each(self):
        # 40 levels of pure noise, five values each. Value by value the levels would pass for a fall.
        rng = np.random.default_rng(6)
        levels = np.concatenate([np.sort(rng.normal(size=3))[::-1], rng.normal(size=37)])
        values, sources = np.repeat(levels, 5), list(np.repeat(np.arange(40), 5))
        assert p_value(values, maximize=False, sources=sources) == p_value(levels, maximize=False)
        assert p_value(values, maximize=False, sources=sources) > 10 * p_value(values, maximize=False)

    def test_few_values_on_few_rollouts_are_one_value_each_too(self):
        assert p_value([0.0, 0.0, 1.0, 1.0], maximize=True, sources=[0, 0, 1, 1]) == pytest.approx(0.5, abs=0.05)

    def test_values_that_are_not_finite_are_left_out_with_their_sources(self):
        values, sources = self.levels(n_rollouts=30, n_values=2)
        spoilt, more = [math.nan, *values, math.inf], [0, *sources, 29]
        assert p_value(spoilt, maximize=False, sources=more) == p_value(values, maximize=False, sources=sources)


def test_a_long_curve_is_judged_by_the_means_of_its_stretches():
    rng = np.random.default_rng(5)
    values = rng.normal(size=2000)
    assert p_value(values, maximize=True) == p_value(values.reshape(100, 20).mean(axis=1), maximize=True)
