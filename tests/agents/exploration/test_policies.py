"""Tests of policies: choices worked out by hand and frequencies. See test_policy_contract.py for their contract."""

import math

import numpy as np
import pytest
from scipy import stats

from agents.errors import ConfigurationError
from agents.exploration import (
    AdaptiveEpsilonGreedy,
    Boltzmann,
    BoltzmannGumbel,
    EpsilonGreedy,
    GumbelSoftmax,
    MaxBoltzmann,
    Policy,
    Softmax,
    greedy,
    make_policy,
)
from agents.exploration.sampling import uniform
from agents.functional.schedules import ExponentialSchedule

ALMOST_ONE = 1.0 - 2.0**-53  # the largest number that Generator.random returns


class GivenUniforms:
    """Random generator that returns given uniform numbers."""

    def __init__(self, *draws):
        self.draws = [np.asarray(draw, dtype=np.float64) for draw in draws]

    def random(self, shape):
        draw = self.draws.pop(0)
        assert draw.shape == (shape if isinstance(shape, tuple) else (shape,))
        return draw


# Uniform numbers whose Gumbel number -log(-log u) is 0 and 1:
# u = 1/e gives -log u = 1, -log 1 = 0; u = e^(-1/e) gives -log u = 1/e, -log(1/e) = 1.
GUMBEL_0, GUMBEL_1 = math.exp(-1.0), math.exp(-math.exp(-1.0))


# --- tier 0: worked out by hand


def test_greedy_takes_first_of_equal_values():
    actions = greedy(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -2.0, -0.5]]))
    assert actions.tolist() == [1, 0, 2]
    assert actions.dtype == np.int64


def test_softmax_inverts_cumulative_probability():
    # exp(0) : exp(ln 3) = 1 : 3, so action 0 has the first quarter of [0, 1).
    logits = np.tile([0.0, math.log(3.0)], (4, 1))
    assert Softmax().select(logits, GivenUniforms([0.0, 0.24, 0.26, ALMOST_ONE])).tolist() == [0, 0, 1, 1]


def test_boltzmann_divides_by_temperature():
    # exp(2 ln 3 / 2) = 3: again a quarter and three quarters. With temperature 1 it would be 1 : 9.
    values = np.tile([0.0, 2.0 * math.log(3.0)], (2, 1))
    assert Boltzmann(temperature=2.0).select(values, GivenUniforms([0.24, 0.26])).tolist() == [0, 1]
    assert Boltzmann().select(values, GivenUniforms([0.09, 0.11])).tolist() == [0, 1]


def test_boltzmann_clip_bounds_odds():
    # The exponent of action 0 is -1000, clipped to -ln 3: a probability of a quarter instead of 0.
    values = np.tile([0.0, 1000.0], (2, 1))
    assert Boltzmann(clip=math.log(3.0)).select(values, GivenUniforms([0.24, 0.26])).tolist() == [0, 1]


def test_boltzmann_distinguishes_large_values():
    # Both are beyond ±500; exp(-100) is never drawn.
    values = np.tile([900.0, 1000.0], (1000, 1))
    assert (Boltzmann().select(values, np.random.default_rng(0)) == 1).all()


def test_epsilon_greedy_explores_only_below_epsilon():
    values = np.tile([1.0, 5.0, 2.0, 3.0], (4, 1))
    coins, choices = [0.49, 0.5, 0.0, 0.9], [ALMOST_ONE, 0.0, 0.26, 0.99]
    # Rows 0 and 2 explore: floor(0.999.. * 4) = 3 and floor(0.26 * 4) = 1; the others take the best, 1.
    assert EpsilonGreedy(0.5).select(values, GivenUniforms(np.transpose([coins, choices]))).tolist() == [3, 1, 1, 1]


def test_max_boltzmann_explores_like_boltzmann():
    values = np.tile([0.0, math.log(3.0)], (3, 1))
    uniforms = [[0.0, 0.0, 0.9], [0.24, 0.26, 0.24]]  # only the first two rows explore
    assert MaxBoltzmann(0.5).select(values, GivenUniforms(np.transpose(uniforms))).tolist() == [0, 1, 1]


def test_boltzmann_gumbel_noise_falls_with_counts():
    # Scores with C = 2 are 1 + 0 for action 0 and 0 + 2 / sqrt(count) for action 1: 2, 1.41, 1.15, then 1 (a little
    # less, because the Gumbel number is a little below 1): action 1 three times, then action 0.
    policy = BoltzmannGumbel(C=2.0)
    chosen = [policy.select(np.array([[1.0, 0.0]]), GivenUniforms([[GUMBEL_0, GUMBEL_1 - 1e-6]]))[0] for _ in range(4)]
    assert chosen == [1, 1, 1, 0]
    assert policy.counts.tolist() == [2, 4]


def test_gumbel_softmax_relaxes_by_temperature():
    # logits + Gumbel = [0, 1]: softmax of [0, 1] and of [0, 2].
    logits, uniforms = np.zeros((1, 2)), [[GUMBEL_0, GUMBEL_1]]
    e = math.e
    relaxed = GumbelSoftmax().relaxed(logits, GivenUniforms(uniforms))
    np.testing.assert_allclose(relaxed, [[1 / (1 + e), e / (1 + e)]], rtol=1e-12)
    relaxed = GumbelSoftmax(temperature=0.5).relaxed(logits, GivenUniforms(uniforms))
    np.testing.assert_allclose(relaxed, [[1 / (1 + e**2), e**2 / (1 + e**2)]], rtol=1e-12)
    assert GumbelSoftmax(temperature=9.0).select(logits, GivenUniforms(uniforms)).tolist() == [1]


def test_gumbel_softmax_eps_keeps_logarithms_finite():
    relaxed = GumbelSoftmax(eps=0.01).relaxed(np.zeros((1, 2)), GivenUniforms([[0.0, ALMOST_ONE]]))
    # u is clipped to [0.01, 0.99]: Gumbel numbers -log(-log 0.01) = -1.5272 and -log(-log 0.99) = 4.6001.
    assert math.log(relaxed[0, 1] / relaxed[0, 0]) == pytest.approx(4.6001 + 1.5272, abs=1e-3)
    assert np.isfinite(GumbelSoftmax().relaxed(np.zeros((1, 2)), GivenUniforms([[0.0, ALMOST_ONE]]))).all()


@pytest.mark.parametrize(("env_steps", "epsilon"), [(0, 1.0), (1, 0.9999), (1000, 0.9), (9000, 0.1), (50_000, 0.1)])
def test_adaptive_epsilon_falls_by_decay_per_environment_step(env_steps, epsilon):
    policy = AdaptiveEpsilonGreedy()
    policy.step(env_steps)
    assert policy.epsilon == pytest.approx(epsilon, rel=1e-12)


def test_adaptive_epsilon_may_be_given_by_number_of_steps():
    policy = AdaptiveEpsilonGreedy(start=1.0, end=0.05, n_steps=10_000)
    for _ in range(625):
        policy.step(8)  # 5000 steps in all: halfway, (1 + 0.05) / 2
    assert policy.epsilon == pytest.approx(0.525)
    policy.step(5000)
    assert policy.epsilon == 0.05


def test_adaptive_epsilon_may_be_constant():
    policy = AdaptiveEpsilonGreedy(start=0.2, end=0.2)
    policy.step(10)
    assert policy.epsilon == 0.2


def test_epsilon_greedy_takes_schedules_and_their_json():
    for epsilon in (
        ExponentialSchedule(1.0, 0.01, 100),
        {"schedule": "exponential", "start": 1.0, "end": 0.01, "n_steps": 100},
    ):
        policy = EpsilonGreedy(epsilon)
        policy.step(50)
        assert policy.epsilon == pytest.approx(0.1)  # halfway between 1 and 0.01 on a log axis


def test_exploration_draws_from_allowed_actions():
    values = np.tile([-np.inf, 1.0, -np.inf, 0.0], (4, 1))
    # Two allowed actions: the lower half is action 1, the upper half action 3.
    assert uniform(values, np.array([0.0, 0.49, 0.51, ALMOST_ONE])).tolist() == [1, 1, 3, 3]


# --- frequencies: chi-square at fixed seeds; a correct policy fails at one in 10,000 seeds

VALUES = np.array([0.0, 0.5, 1.0, -1.0])
SOFT = np.exp(VALUES) / np.exp(VALUES).sum()
BEST = np.array([0.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("policy", "probabilities"),
    [
        (Softmax(), SOFT),
        (Boltzmann(), SOFT),
        (Boltzmann(temperature=0.5), np.exp(2 * VALUES) / np.exp(2 * VALUES).sum()),
        (EpsilonGreedy(0.3), 0.7 * BEST + 0.3 / 4),
        (EpsilonGreedy(1.0), np.full(4, 0.25)),
        (AdaptiveEpsilonGreedy(start=0.5), 0.5 * BEST + 0.5 / 4),
        (MaxBoltzmann(0.4), 0.6 * BEST + 0.4 * SOFT),
        (BoltzmannGumbel(), SOFT),  # while all counts are 1, the largest value + C · Gumbel follows softmax(values / C)
        (GumbelSoftmax(temperature=5.0), SOFT),  # the temperature does not change the action's distribution
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Policy) else "",
)
def test_action_frequencies_follow_probabilities(policy, probabilities):
    n = 40_000
    counts = np.bincount(policy.select(np.tile(VALUES, (n, 1)), np.random.default_rng(3)), minlength=4)
    statistic = ((counts - n * probabilities) ** 2 / (n * probabilities)).sum()
    assert statistic < stats.chi2.ppf(0.9999, df=3)


def test_epsilon_zero_never_explores_and_one_always():
    values = np.tile(VALUES, (5000, 1))
    assert (EpsilonGreedy(0.0).select(values, np.random.default_rng(0)) == 2).all()
    coins = np.array([[ALMOST_ONE, ALMOST_ONE]])
    assert EpsilonGreedy(1.0).select(values[:1], GivenUniforms(coins)).tolist() == [3]


class EpsilonGreedyWithKwargs(EpsilonGreedy):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]


def test_user_policy_may_forward_its_arguments() -> None:
    place = f"{__file__}:EpsilonGreedyWithKwargs"
    assert make_policy(place, epsilon=0.25).epsilon == 0.25
    assert make_policy(place).epsilon == EpsilonGreedy().epsilon
    with pytest.raises(ConfigurationError, match=r"cannot be made with .*epsilom"):
        make_policy(place, epsilom=0.25)
