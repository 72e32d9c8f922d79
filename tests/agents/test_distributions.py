"""Distributions over actions: NumPy against Keras against SciPy, and what is drawn against what is said."""

import keras
import numpy as np
import pytest
from scipy import stats

from agents.distributions import Categorical, DiagonalGaussian, GaussianHead

LOGITS = np.array([[0.0, 1.0, -2.0], [30.0, -30.0, 0.0], [1e4, 1e4, -1e4]], np.float32)
ACTIONS = np.array([1, 2, 0])
PARAMETERS = np.array([[0.0, 1.0, 0.0, -1.0], [5.0, -5.0, 2.0, -3.0]], np.float32)  # means, log standard deviations
CONTINUOUS = np.array([[0.5, 1.2], [4.0, -5.1]], np.float32)


def softmax(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def test_categorical_log_probabilities():
    with np.errstate(divide="ignore"):
        expected = np.log(softmax(LOGITS))[np.arange(3), ACTIONS]
    np.testing.assert_allclose(Categorical.log_prob_numpy(LOGITS, ACTIONS), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(Categorical.log_prob(LOGITS, ACTIONS), expected, rtol=1e-5, atol=1e-6)


def test_categorical_entropy():
    expected = [stats.entropy(row) for row in softmax(LOGITS)]
    np.testing.assert_allclose(Categorical.entropy(LOGITS), expected, rtol=1e-5, atol=1e-6)


def test_categorical_draws_by_its_probabilities():
    logits = np.tile(LOGITS[:1], (20_000, 1))
    drawn = Categorical.sample(logits, np.random.default_rng(0))
    assert drawn.dtype == np.int64
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, softmax(LOGITS)[0] * len(drawn)).pvalue > 0.01


def test_categorical_mode():
    assert Categorical.mode(LOGITS[:2]).tolist() == [1, 0]


def test_gaussian_log_densities():
    mean, log_std = np.split(PARAMETERS.astype(np.float64), 2, axis=1)
    expected = stats.norm(mean, np.exp(log_std)).logpdf(CONTINUOUS).sum(axis=1)
    np.testing.assert_allclose(DiagonalGaussian.log_prob_numpy(PARAMETERS, CONTINUOUS), expected, rtol=1e-5)
    np.testing.assert_allclose(DiagonalGaussian.log_prob(PARAMETERS, CONTINUOUS), expected, rtol=1e-5)


def test_gaussian_entropy():
    expected = stats.norm(0.0, np.exp(PARAMETERS[:, 2:])).entropy().sum(axis=1)
    np.testing.assert_allclose(DiagonalGaussian.entropy(PARAMETERS), expected, rtol=1e-5)


def test_divergences():
    others = np.array([[1.0, 1.0, 0.5], [29.0, -28.0, 1.0], [1e4, 1e4, -1e4]], np.float32)
    expected = [stats.entropy(one, other) for one, other in zip(softmax(LOGITS), softmax(others), strict=True)]
    np.testing.assert_allclose(Categorical.divergence(LOGITS, others), expected, rtol=1e-5, atol=1e-6)
    one, other = np.array([[0.5, -0.3]], np.float32), np.array([[1.0, 0.4]], np.float32)  # of one dimension
    x = np.linspace(-12, 12, 100_001)
    p, q = (stats.norm(mean, np.exp(log_std)) for mean, log_std in (one[0], other[0]))
    expected = np.trapezoid(p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), x)
    assert float(DiagonalGaussian.divergence(one, other)[0]) == pytest.approx(expected, rel=1e-5)
    twice = [np.repeat(parameters, 2, axis=1) for parameters in (one, other)]  # dimensions are independent
    assert float(DiagonalGaussian.divergence(*twice)[0]) == pytest.approx(2 * expected, rel=1e-5)
    np.testing.assert_array_equal(DiagonalGaussian.divergence(PARAMETERS, PARAMETERS), np.zeros(2))


def test_gaussian_draws_by_its_density():
    parameters = np.tile(PARAMETERS[:1], (5_000, 1))
    drawn = DiagonalGaussian.sample(parameters, np.random.default_rng(0))
    assert drawn.dtype == np.float32
    assert stats.kstest(drawn[:, 0], stats.norm(0.0, 1.0).cdf).pvalue > 0.01
    assert stats.kstest(drawn[:, 1], stats.norm(1.0, np.exp(-1.0)).cdf).pvalue > 0.01


def test_gaussian_mode():
    mode = DiagonalGaussian.mode(PARAMETERS.astype(np.float64))
    assert mode.dtype == np.float32
    assert mode.tolist() == [[0.0, 1.0], [5.0, -5.0]]


@pytest.mark.parametrize(("distribution", "inputs"), [(Categorical, LOGITS), (DiagonalGaussian, PARAMETERS)])
def test_draws_come_from_the_generator_alone(distribution, inputs):
    drawn = [distribution.sample(inputs, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert (drawn[0] == drawn[1]).all()
    before = np.random.get_state()[1].copy()
    distribution.sample(inputs, np.random.default_rng(0))
    assert (np.random.get_state()[1] == before).all()


def test_the_gaussian_head_keeps_its_spread_apart_from_the_observation():
    network = keras.Sequential([keras.Input((3,)), GaussianHead(2, initial_log_std=-0.5)])
    parameters = network(np.random.default_rng(0).normal(size=(4, 3))).numpy()
    assert parameters.shape == (4, 4)
    assert (parameters[:, 2:] == -0.5).all()
    assert np.abs(parameters[:, :2]).max() < 0.1  # small means at first: exploration comes from the spread
    again = GaussianHead.from_config(network.layers[-1].get_config())
    assert (again.n_dimensions, again.initial_log_std) == (2, -0.5)
