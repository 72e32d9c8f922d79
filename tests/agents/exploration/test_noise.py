"""Tests of noise: steps worked out by hand, moments, resets and states."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ConfigurationError
from agents.exploration import NOISES, GaussianNoise, OrnsteinUhlenbeckNoise, make_noise

ALL = pytest.mark.parametrize("name", sorted(NOISES))


class GivenNormals:
    """Random generator that returns given normal numbers."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def standard_normal(self, shape):
        return np.full(shape, self.draws.pop(0))


def test_gaussian_noise_is_mu_plus_sigma_times_normals():
    noise = GaussianNoise(mu=0.5, sigma=2.0).sample((2, 3), GivenNormals(-1.5))
    np.testing.assert_array_equal(noise, np.full((2, 3), 0.5 - 3.0, dtype=np.float32))


@pytest.mark.parametrize(("env_steps", "sigma"), [(0, 0.5), (50, 0.3), (100, 0.1), (1000, 0.1)])
def test_gaussian_sigma_falls_linearly(env_steps, sigma):
    # From 0.5 to 0.1 over 100 steps: 0.004 per step.
    noise = GaussianNoise(sigma=0.5, sigma_min=0.1, n_steps=100)
    noise.step(env_steps)
    assert noise.sigma == pytest.approx(sigma)
    assert noise.sample((1, 1), GivenNormals(1.0))[0, 0] == pytest.approx(sigma, rel=1e-6)


def test_ornstein_uhlenbeck_steps_by_hand():
    # sqrt(dt) = 0.5. From mu = 1: 1 + 0.5 (1 - 1) 0.25 + 2 * 0.5 * 1 = 2; then 2 + 0.5 (1 - 2) 0.25 - 1 = 0.875;
    # then, without a random term, 0.875 + 0.5 * 0.125 * 0.25 = 0.890625.
    noise = OrnsteinUhlenbeckNoise(theta=0.5, mu=1.0, sigma=2.0, dt=0.25)
    rng = GivenNormals(1.0, -1.0, 0.0)
    assert [float(noise.sample((1, 1), rng)[0, 0]) for _ in range(3)] == [2.0, 0.875, 0.890625]


def test_gaussian_moments():
    draws = GaussianNoise(mu=1.0, sigma=0.5).sample((200_000,), np.random.default_rng(0))
    # Standard errors are 0.0011 for the mean and 0.0008 for the deviation; four of each.
    assert abs(draws.mean() - 1.0) < 0.0045
    assert abs(draws.std() - 0.5) < 0.0032


def test_ornstein_uhlenbeck_moments():
    # x' = a x + s z with a = 1 - 5 * 0.1 = 0.5 and s² = 0.04 * 0.1 has variance s² / (1 - a²) = 0.004 / 0.75 and
    # correlation a between neighbours, once the start is forgotten (0.5^50).
    noise, rng = OrnsteinUhlenbeckNoise(theta=5.0, mu=0.3, sigma=0.2, dt=0.1), np.random.default_rng(1)
    for _ in range(50):
        before = noise.sample((40_000, 1), rng)
    after = noise.sample((40_000, 1), rng)
    assert after.mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.004 / 0.75 / 40_000))
    assert after.var() == pytest.approx(0.004 / 0.75, rel=0.03)
    assert np.corrcoef(before[:, 0], after[:, 0])[0, 1] == pytest.approx(0.5, abs=0.02)


def test_reset_of_some_environments_keeps_others():
    noise, rng = OrnsteinUhlenbeckNoise(mu=0.7), np.random.default_rng(2)
    noise.sample((4, 2), rng)
    before = noise.get_state()["x"]
    noise.reset(np.array([True, False, False, True]))
    after = noise.get_state()["x"]
    assert (after[[0, 3]] == 0.7).all()
    np.testing.assert_array_equal(after[[1, 2]], before[[1, 2]])
    assert (before[[0, 3]] != 0.7).all()


def test_reset_of_all_environments_allows_another_shape():
    noise, rng = OrnsteinUhlenbeckNoise(sigma=0.0, mu=0.7), np.random.default_rng(0)
    noise.sample((4, 2), rng)
    with pytest.raises(ValueError, match=r"\[4, 2\], got \[3, 2\]"):
        noise.sample((3, 2), rng)
    noise.reset()
    assert noise.sample((3, 2), rng) == pytest.approx(0.7)


def test_reset_before_first_sample_has_no_effect():
    noise = OrnsteinUhlenbeckNoise()
    noise.reset(np.array([True, False]))
    assert noise.get_state()["x"].shape == (0,)


@ALL
@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 5), d=st.integers(1, 4), seed=st.integers(0, 2**32), n_before=st.integers(0, 5))
def test_restored_noise_continues_bit_for_bit(name, n, d, seed, n_before):
    kwargs = {"sigma_min": 0.01, "n_steps": 7} if name == "gaussian" else {}
    noise, rng = make_noise(name, **kwargs), np.random.default_rng(seed)
    for _ in range(n_before):
        noise.sample((n, d), rng)
        noise.step(1)
    state = noise.get_state()
    plain = json.loads(json.dumps({k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}))
    again, rng_again = make_noise(name, **kwargs), np.random.default_rng()
    again.set_state(plain)
    rng_again.bit_generator.state = rng.bit_generator.state
    for _ in range(5):
        sample = noise.sample((n, d), rng)
        assert sample.dtype == np.float32
        assert sample.shape == (n, d)
        assert sample.tobytes() == again.sample((n, d), rng_again).tobytes()
        noise.step(1)
        again.step(1)


def test_state_is_independent_of_later_samples():
    noise, rng = OrnsteinUhlenbeckNoise(), np.random.default_rng(0)
    noise.sample((2, 1), rng)
    state = noise.get_state()
    kept = state["x"].copy()
    noise.set_state(state)
    noise.reset(np.array([True, True]))  # in place
    noise.sample((2, 1), rng)
    np.testing.assert_array_equal(state["x"], kept)


@ALL
def test_noises_can_be_pickled(name):
    noise = make_noise(name)
    again = pickle.loads(pickle.dumps(noise))
    one, other = noise.sample((3, 2), np.random.default_rng(0)), again.sample((3, 2), np.random.default_rng(0))
    np.testing.assert_array_equal(one, other)


@ALL
def test_global_random_generator_is_unchanged(name):
    before = np.random.get_state()[1].copy()
    make_noise(name).sample((3, 2), np.random.default_rng(0))
    assert (np.random.get_state()[1] == before).all()


@ALL
@pytest.mark.parametrize("mask", [np.array([1, 0]), [True, False], np.ones((2, 2), dtype=bool)])
def test_invalid_masks_are_refused(name, mask):
    noise = make_noise(name)
    noise.sample((2, 2), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"mask must be a bool array of the shape \[N\]"):
        noise.reset(mask)


def test_mask_of_wrong_length_is_refused():
    noise = OrnsteinUhlenbeckNoise()
    noise.sample((2, 2), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"shape \[2\], got \[3\]"):
        noise.reset(np.array([True, False, True]))


@ALL
def test_states_with_wrong_keys_are_refused(name):
    with pytest.raises(ValueError, match="keys"):
        make_noise(name).set_state({"something": 1})
    with pytest.raises(ValueError, match="n must be >= 0"):
        make_noise(name).step(-1)


def test_states_with_invalid_values_are_refused():
    with pytest.raises(ValueError, match="env_steps must be >= 0"):
        GaussianNoise().set_state({"env_steps": -3})
    with pytest.raises(ValueError, match="x must be finite"):
        OrnsteinUhlenbeckNoise().set_state({"x": [[math.nan]]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianNoise(sigma=-0.1), "sigma .*>= 0.*-0.1"),
        (lambda: GaussianNoise(mu=math.inf), "mu .*finite.*inf"),
        (lambda: GaussianNoise(sigma=0.1, sigma_min=0.2, n_steps=5), r"sigma_min .*\[0, sigma=0.1\].*0.2"),
        (lambda: GaussianNoise(sigma=0.1, sigma_min=0.0), "sigma_min and n_steps, or neither"),
        (lambda: GaussianNoise(sigma=0.1, n_steps=5), "sigma_min and n_steps, or neither"),
        (lambda: GaussianNoise(sigma=0.1, sigma_min=0.0, n_steps=0), "n_steps .*> 0.*0"),
        (lambda: OrnsteinUhlenbeckNoise(theta=-1.0), r"theta .*\[0, 2 / dt = 200\).*-1.0"),
        (lambda: OrnsteinUhlenbeckNoise(theta=200.0), r"theta .*\[0, 2 / dt = 200\).*200.0"),
        (lambda: OrnsteinUhlenbeckNoise(dt=0.0), "dt .*> 0.*0.0"),
        (lambda: OrnsteinUhlenbeckNoise(sigma=math.nan), "sigma .*>= 0.*nan"),
        (lambda: OrnsteinUhlenbeckNoise(mu=math.nan), "mu .*finite.*nan"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_make_noise_by_name():
    assert isinstance(make_noise("OrnsteinUhlenbeck", theta=0.2), OrnsteinUhlenbeckNoise)
    noise = GaussianNoise()
    assert make_noise(noise) is noise
    with pytest.raises(ConfigurationError, match=r"noise 'gausian'.*gaussian"):
        make_noise("gausian")
