"""Tests of action distributions: NumPy against Keras and SciPy, and the frequencies of samples."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from agents.errors import NonFiniteError
from agents.networks.distributions import Categorical, DiagonalGaussian, GaussianHead, MultiCategorical

LOGITS = np.array([[0.0, 1.0, -2.0], [30.0, -30.0, 0.0], [1e4, 1e4, -1e4]], np.float32)
ACTIONS = np.array([1, 2, 0])
PARAMETERS = np.array([[0.0, 1.0, 0.0, -1.0], [5.0, -5.0, 2.0, -3.0]], np.float32)  # means, log standard deviations
CONTINUOUS = np.array([[0.5, 1.2], [4.0, -5.1]], np.float32)


def softmax(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def test_categorical_log_probabilities_equal_log_softmax():
    with np.errstate(divide="ignore"):
        expected = np.log(softmax(LOGITS))[np.arange(3), ACTIONS]
    np.testing.assert_allclose(Categorical.log_prob_numpy(LOGITS, ACTIONS), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(Categorical.log_prob(LOGITS, ACTIONS), expected, rtol=1e-5, atol=1e-6)


def test_categorical_entropy_equals_scipy():
    expected = [stats.entropy(row) for row in softmax(LOGITS)]
    np.testing.assert_allclose(Categorical.entropy(LOGITS), expected, rtol=1e-5, atol=1e-6)


def test_categorical_samples_follow_probabilities():
    logits = np.tile(LOGITS[:1], (20_000, 1))
    drawn = Categorical.sample(logits, np.random.default_rng(0))
    assert drawn.dtype == np.int64
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, softmax(LOGITS)[0] * len(drawn)).pvalue > 0.01


def test_categorical_mode_is_largest_logit():
    assert Categorical.mode(LOGITS[:2]).tolist() == [1, 0]


def test_gaussian_log_densities_equal_scipy():
    mean, log_std = np.split(PARAMETERS.astype(np.float64), 2, axis=1)
    expected = stats.norm(mean, np.exp(log_std)).logpdf(CONTINUOUS).sum(axis=1)
    np.testing.assert_allclose(DiagonalGaussian.log_prob_numpy(PARAMETERS, CONTINUOUS), expected, rtol=1e-5)
    np.testing.assert_allclose(DiagonalGaussian.log_prob(PARAMETERS, CONTINUOUS), expected, rtol=1e-5)


def test_gaussian_entropy_equals_scipy():
    expected = stats.norm(0.0, np.exp(PARAMETERS[:, 2:])).entropy().sum(axis=1)
    np.testing.assert_allclose(DiagonalGaussian.entropy(PARAMETERS), expected, rtol=1e-5)


def test_divergences_equal_numerical_integrals():
    others = np.array([[1.0, 1.0, 0.5], [29.0, -28.0, 1.0], [1e4, 1e4, -1e4]], np.float32)
    expected = [stats.entropy(one, other) for one, other in zip(softmax(LOGITS), softmax(others), strict=True)]
    np.testing.assert_allclose(Categorical.divergence(LOGITS, others), expected, rtol=1e-5, atol=1e-6)
    one, other = np.array([[0.5, -0.3]], np.float32), np.array([[1.0, 0.4]], np.float32)  # one-dimensional
    x = np.linspace(-12, 12, 100_001)
    p, q = (stats.norm(mean, np.exp(log_std)) for mean, log_std in (one[0], other[0]))
    expected = np.trapezoid(p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), x)
    assert float(DiagonalGaussian.divergence(one, other)[0]) == pytest.approx(expected, rel=1e-5)
    twice = [np.repeat(parameters, 2, axis=1) for parameters in (one, other)]  # dimensions are independent
    assert float(DiagonalGaussian.divergence(*twice)[0]) == pytest.approx(2 * expected, rel=1e-5)
    np.testing.assert_array_equal(DiagonalGaussian.divergence(PARAMETERS, PARAMETERS), np.zeros(2))


FORBIDDING = np.array([[0.0, -np.inf, np.log(3.0)], [-np.inf, 5.0, -np.inf], [1.0, 1.0, 1.0]], np.float32)
"""Probabilities 1/4, 0, 3/4; then 0, 1, 0; then 1/3 each."""


def test_masked_action_is_never_drawn():
    drawn = [Categorical.sample(FORBIDDING, np.random.default_rng(seed)) for seed in range(500)]
    counts = np.stack([np.bincount(column, minlength=3) for column in np.transpose(drawn)])
    assert counts[0, 1] == 0
    assert counts[1].tolist() == [0, 500, 0]
    assert stats.binomtest(int(counts[0, 2]), 500, 0.75).pvalue > 0.01
    assert Categorical.mode(FORBIDDING[:2]).tolist() == [2, 1]


def test_masked_actions_by_hand():
    expected = np.array([np.log(0.75), 0.0, -np.log(3.0)])
    taken = np.array([2, 1, 0])
    np.testing.assert_allclose(Categorical.log_prob(FORBIDDING, taken), expected, atol=1e-6)
    np.testing.assert_allclose(Categorical.log_prob_numpy(FORBIDDING, taken), expected, atol=1e-6)
    entropy = -0.25 * np.log(0.25) - 0.75 * np.log(0.75)
    np.testing.assert_allclose(Categorical.entropy(FORBIDDING), [entropy, 0.0, np.log(3.0)], atol=1e-6)
    others = np.array([[0.0, -np.inf, 0.0], [-np.inf, -2.0, -np.inf], [-np.inf, 0.0, 0.0]], np.float32)
    divergence = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)  # infinite where only the other distribution forbids an action
    np.testing.assert_allclose(Categorical.divergence(FORBIDDING, others), [divergence, 0.0, np.inf], atol=1e-6)
    allowing = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], np.float32)
    expected = [np.log(3.0) - entropy, np.log(3.0), 0.0]  # of a uniform distribution
    np.testing.assert_allclose(Categorical.divergence(FORBIDDING, allowing), expected, atol=1e-6)


@pytest.mark.parametrize("by_xla", [False, True])
def test_gradients_with_masked_actions_equal_those_without_them(by_xla: bool):
    """First and second derivatives are compared for the logits of allowed actions; those of masked actions are zero."""
    others = tf.constant([[1.0, -np.inf, 0.0]])

    def values(logits):
        log_prob, entropy = Categorical.log_prob(logits, np.array([logits.shape[1] - 1])), Categorical.entropy(logits)
        far = others if logits.shape[1] == 3 else tf.gather(others, [0, 2], axis=1)
        return tf.stack([log_prob, entropy, Categorical.divergence(logits, far), Categorical.divergence(far, logits)])

    @tf.function(jit_compile=by_xla, autograph=False)
    def derivatives(logits):
        with tf.GradientTape() as outer:
            outer.watch(logits)
            with tf.GradientTape() as inner:
                inner.watch(logits)
                total = tf.reduce_sum(tf.constant([[1.0], [10.0], [100.0], [1000.0]]) * values(logits))
            first = inner.gradient(total, logits)
            along = tf.reduce_sum(first * tf.range(tf.cast(tf.shape(logits)[1], tf.float32))[::-1])
        return first, outer.gradient(along, logits)

    masked = [each.numpy()[:, [0, 2]] for each in derivatives(tf.constant(FORBIDDING[:1]))]
    for one, other in zip(masked, derivatives(tf.constant(FORBIDDING[:1, [0, 2]])), strict=True):
        np.testing.assert_allclose(one / np.abs(one).max(), other.numpy() / np.abs(other).max(), rtol=1e-4)
    for each in derivatives(tf.constant(FORBIDDING[:1])):
        assert each.numpy()[0, 1] == 0.0


@pytest.mark.parametrize("choose", [Categorical.mode, lambda x: Categorical.sample(x, np.random.default_rng(0))])
def test_row_with_all_actions_masked_is_refused(choose):
    logits = np.array([[0.0, 1.0], [-np.inf, -np.inf]], np.float32)
    with pytest.raises(NonFiniteError, match="All actions of row 1 are forbidden"):
        choose(logits)


def test_gaussian_samples_follow_density():
    parameters = np.tile(PARAMETERS[:1], (5_000, 1))
    drawn = DiagonalGaussian.sample(parameters, np.random.default_rng(0))
    assert drawn.dtype == np.float32
    assert stats.kstest(drawn[:, 0], stats.norm(0.0, 1.0).cdf).pvalue > 0.01
    assert stats.kstest(drawn[:, 1], stats.norm(1.0, np.exp(-1.0)).cdf).pvalue > 0.01


def test_gaussian_mode_is_mean():
    mode = DiagonalGaussian.mode(PARAMETERS.astype(np.float64))
    assert mode.dtype == np.float32
    assert mode.tolist() == [[0.0, 1.0], [5.0, -5.0]]


@pytest.mark.parametrize(("distribution", "inputs"), [(Categorical, LOGITS), (DiagonalGaussian, PARAMETERS)])
def test_samples_depend_only_on_generator(distribution, inputs):
    drawn = [distribution.sample(inputs, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert (drawn[0] == drawn[1]).all()
    before = np.random.get_state()[1].copy()
    distribution.sample(inputs, np.random.default_rng(0))
    assert (np.random.get_state()[1] == before).all()


def test_gaussian_head_has_deviation_independent_of_observation():
    network = keras.Sequential([keras.Input((3,)), GaussianHead(2, initial_log_std=-0.5)])
    parameters = network(np.random.default_rng(0).normal(size=(4, 3))).numpy()
    assert parameters.shape == (4, 4)
    assert (parameters[:, 2:] == -0.5).all()
    assert np.abs(parameters[:, :2]).max() < 0.1  # small initial means: exploration comes from the deviation
    again = GaussianHead.from_config(network.layers[-1].get_config())
    assert (again.n_dimensions, again.initial_log_std) == (2, -0.5)


# --- several categorical actions

SEVERAL = np.log(np.array([[0.5, 0.5, 0.25, 0.25, 0.5], [0.1, 0.9, 0.2, 0.3, 0.5]], np.float32))  # of 2 and of 3
EQUAL = np.log(np.array([[0.5, 0.5, 0.25, 0.75]], np.float32))  # of 2 and of 2


def test_log_probabilities_of_several_actions_by_hand():
    actions = np.array([[0, 2], [1, 0]])
    expected = np.log([0.5 * 0.5, 0.9 * 0.2])
    both = MultiCategorical([2, 3])
    np.testing.assert_allclose(both.log_prob_numpy(SEVERAL, actions), expected, rtol=1e-5)
    np.testing.assert_allclose(both.log_prob(tf.constant(SEVERAL), tf.constant(actions)), expected, rtol=1e-5)
    np.testing.assert_allclose(
        MultiCategorical([2, 2]).log_prob(tf.constant(EQUAL), tf.constant([[1, 0]])), np.log([0.5 * 0.25]), rtol=1e-5
    )


def test_entropy_of_several_actions_by_hand():
    expected = [
        stats.entropy([0.5, 0.5]) + stats.entropy([0.25, 0.25, 0.5]),
        stats.entropy([0.1, 0.9]) + stats.entropy([0.2, 0.3, 0.5]),
    ]
    np.testing.assert_allclose(MultiCategorical([2, 3]).entropy(tf.constant(SEVERAL)), expected, rtol=1e-5)


def test_divergence_of_several_actions_by_hand():
    there, back = SEVERAL, SEVERAL[::-1].copy()
    expected = [
        stats.entropy([0.5, 0.5], [0.1, 0.9]) + stats.entropy([0.25, 0.25, 0.5], [0.2, 0.3, 0.5]),
        stats.entropy([0.1, 0.9], [0.5, 0.5]) + stats.entropy([0.2, 0.3, 0.5], [0.25, 0.25, 0.5]),
    ]
    found = MultiCategorical([2, 3]).divergence(tf.constant(there), tf.constant(back))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_samples_of_several_actions_are_independent():
    both = MultiCategorical([2, 3])
    drawn = both.sample(np.tile(SEVERAL[1:], (30_000, 1)), np.random.default_rng(0))
    assert (drawn.dtype, drawn.shape) == (np.int64, (30_000, 2))
    counts = np.bincount(3 * drawn[:, 0] + drawn[:, 1], minlength=6)
    expected = np.outer([0.1, 0.9], [0.2, 0.3, 0.5]).ravel() * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > 0.01
    assert both.mode(SEVERAL[1:]).tolist() == [[1, 2]]


def test_gradients_of_several_actions_equal_those_of_each():
    """With unequal numbers of actions, which are padded with -inf: no NaN, and no gradient between actions."""
    logits, actions = tf.constant(SEVERAL), tf.constant([[0, 2], [1, 0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        both = MultiCategorical([2, 3])
        together = [both.log_prob(logits, actions), both.entropy(logits)]
        first, second = logits[:, :2], logits[:, 2:]
        apart = [
            Categorical.log_prob(first, actions[:, 0]) + Categorical.log_prob(second, actions[:, 1]),
            Categorical.entropy(first) + Categorical.entropy(second),
        ]
    for ours, theirs in zip(together, apart, strict=True):
        np.testing.assert_allclose(tape.gradient(ours, logits), tape.gradient(theirs, logits), rtol=1e-5, atol=1e-7)


def test_masked_entries_of_several_actions_are_never_drawn():
    both, logits = MultiCategorical([2, 3]), np.array([[-np.inf, 0.0, 0.0, -np.inf, 0.0]], np.float32)
    drawn = both.sample(np.tile(logits, (100, 1)), np.random.default_rng(0))
    assert set(drawn[:, 0]) == {1}
    assert set(drawn[:, 1]) == {0, 2}
    np.testing.assert_allclose(both.entropy(tf.constant(logits)), [np.log(2)], rtol=1e-5)
    with pytest.raises(NonFiniteError, match="forbidden"):
        both.sample(np.array([[0.0, 0.0, -np.inf, -np.inf, -np.inf]], np.float32), np.random.default_rng(0))
