"""Tests of returns, advantages and running statistics against numbers worked out by hand and naive loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.buffers.n_step import n_step_returns
from agents.functional.returns import discounted_returns, generalized_advantages
from agents.updates.normalization import RunningNormalizer


def column(*values, dtype=np.float32):
    """Return the values of one environment as a column [T, 1]."""
    return np.array(values, dtype)[:, None]


NEVER = column(False, False, False, dtype=bool)

# --- generalized_advantages, by hand: gamma 0.5, lambda 0.5, so that products are exact

REWARDS = column(1, 2, 3)
VALUES = column(10, 20, 30)
NEXT_VALUES = column(20, 30, 40)


def advantages(terminated=NEVER, truncated=NEVER, next_values=NEXT_VALUES, gamma=0.5, gae_lambda=0.5):
    flags = {"terminated": terminated, "truncated": truncated, "gamma": gamma, "gae_lambda": gae_lambda}
    return generalized_advantages(REWARDS, VALUES, next_values, **flags)[:, 0].tolist()


def test_advantages_within_an_episode():
    # deltas: 1 + 10 - 10 = 1; 2 + 15 - 20 = -3; 3 + 20 - 30 = -7; discounted by 1/4 backwards.
    assert advantages() == [1 + (-3 - 7 / 4) / 4, -3 - 7 / 4, -7]


def test_termination_ends_bootstrap_and_sum():
    # The middle delta has no bootstrap: 2 - 20 = -18; nothing is summed over the end.
    assert advantages(terminated=column(False, True, False, dtype=bool)) == [1 - 18 / 4, -18, -7]


def test_truncation_ends_sum_but_bootstraps_from_final_observation():
    # The value of the final observation is 100, not that of the next episode's first observation: 2 + 50 - 20 = 32.
    next_values = column(20, 100, 40)
    truncated = column(False, True, False, dtype=bool)
    assert advantages(truncated=truncated, next_values=next_values) == [1 + 32 / 4, 32, -7]


def test_termination_takes_precedence_over_truncation():
    both = column(False, True, False, dtype=bool)
    assert advantages(terminated=both, truncated=both) == advantages(terminated=both)


def test_lambda_0_gives_one_step_and_lambda_1_monte_carlo_advantages():
    assert advantages(gae_lambda=0.0) == [1, -3, -7]
    returns = [1 + (2 + (3 + 40 / 2) / 2) / 2, 2 + (3 + 40 / 2) / 2, 3 + 40 / 2]
    assert advantages(gae_lambda=1.0) == [returns[0] - 10, returns[1] - 20, returns[2] - 30]


def test_values_of_terminal_states_are_ignored():
    next_values = column(20, np.nan, 40)
    assert np.isfinite(advantages(terminated=column(False, True, False, dtype=bool), next_values=next_values)).all()


@st.composite
def rollouts(draw):
    n_steps, n_envs, seed = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    shape = (n_steps, n_envs)
    numbers = {name: rng.normal(size=shape).astype(np.float32) for name in ("rewards", "values", "next_values")}
    flags = {name: rng.random(shape) < 0.2 for name in ("terminated", "truncated")}
    return numbers | flags


@settings(max_examples=50, deadline=None)
@given(data=rollouts(), gamma=st.floats(0, 1), gae_lambda=st.floats(0, 1))
def test_advantages_equal_sums_of_paper(data, gamma, gae_lambda):
    result = generalized_advantages(**data, gamma=gamma, gae_lambda=gae_lambda)
    assert result.dtype == np.float32
    n_steps, n_envs = data["rewards"].shape
    for n in range(n_envs):
        for t in range(n_steps):
            expected = 0.0
            for k in range(t, n_steps):  # equation 16: sum of (gamma lambda)^l delta_{t+l}
                bootstrap = 0.0 if data["terminated"][k, n] else gamma * data["next_values"][k, n]
                delta = data["rewards"][k, n] + bootstrap - data["values"][k, n]
                expected += (gamma * gae_lambda) ** (k - t) * delta
                if data["terminated"][k, n] or data["truncated"][k, n]:
                    break
            assert result[t, n] == pytest.approx(expected, abs=1e-4)


# --- discounted_returns


def test_discounted_returns_by_hand():
    ended = column(False, True, False, dtype=bool)
    result = discounted_returns(REWARDS, ended, last_values=np.array([8.0]), gamma=0.5)
    assert result[:, 0].tolist() == [1 + 2 / 2, 2, 3 + 8 / 2]
    assert result.dtype == np.float32


def test_discounted_returns_keep_environments_apart():
    rewards = np.array([[1.0, 10.0], [2.0, 20.0]])
    ended = np.array([[False, True], [False, False]])
    result = discounted_returns(rewards, ended, last_values=np.zeros(2), gamma=1.0)
    assert result.tolist() == [[3, 10], [2, 20]]


# --- n_step_returns


def test_n_step_returns_by_hand():
    rewards, ended = column(1, 2, 4, 8, 16), column(False, False, True, False, False, dtype=bool)
    slots = np.array([0, 1, 2, 3])
    result = n_step_returns(rewards, ended, slots, np.zeros(4, int), n=2, gamma=0.5)
    assert result.rewards.tolist() == [1 + 2 / 2, 2 + 4 / 2, 4, 8 + 16 / 2]
    assert result.lengths.tolist() == [2, 2, 1, 2]
    assert result.last.tolist() == [1, 2, 2, 4]


def test_n_step_returns_wrap_around_ring():
    rewards, ended = column(1, 2, 4), NEVER
    result = n_step_returns(rewards, ended, np.array([2]), np.array([0]), n=3, gamma=0.5)
    assert result.rewards.tolist() == [4 + 1 / 2 + 2 / 4]
    assert result.last.tolist() == [1]


@settings(max_examples=50, deadline=None)
@given(data=rollouts(), gamma=st.floats(0, 1), n=st.integers(1, 5))
def test_n_step_returns_equal_naive_sums(data, gamma, n):
    rewards, ended = data["rewards"], data["terminated"] | data["truncated"]
    n_steps, n_envs = rewards.shape
    n = min(n, n_steps)
    slots, environments = (axis.ravel() for axis in np.indices((n_steps, n_envs)))
    result = n_step_returns(rewards, ended, slots, environments, n=n, gamma=gamma)
    for row, (slot, environment) in enumerate(zip(slots, environments, strict=True)):
        total, k = 0.0, 0
        while True:
            at = (slot + k) % n_steps
            total += gamma**k * rewards[at, environment]
            k += 1
            if k == n or ended[at, environment]:
                break
        assert result.rewards[row] == pytest.approx(total, abs=1e-5)
        assert (result.lengths[row], result.last[row]) == (k, at)


# --- RunningNormalizer


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6), seed=st.integers(0, 2**32), far=st.floats(-1e3, 1e3))
def test_running_statistics_equal_statistics_of_all_rows(sizes, seed, far):
    rng = np.random.default_rng(seed)
    parts = [far + rng.normal(size=(size, 3)).astype(np.float32) * (1 + i) for i, size in enumerate(sizes)]
    normalizer = RunningNormalizer((3,))
    for part in parts:
        normalizer.update(part)
    everything = np.concatenate(parts).astype(np.float64)
    np.testing.assert_allclose(normalizer.mean, everything.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normalizer.variance, everything.var(axis=0), rtol=1e-6, atol=1e-9)
    assert normalizer.count == len(everything)


def test_normalizer_by_hand():
    normalizer = RunningNormalizer((2,), clip=1.5)
    normalizer.update(np.array([[0.0, 10.0], [2.0, 10.0]]))
    result = normalizer(np.array([[[2.0, 10.0], [9.0, -99.0]]]))  # any leading axes
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, [[[1.0, 0.0], [1.5, -1.5]]], rtol=1e-6)  # no division by zero


def test_normalizer_without_data_does_not_change_observations():
    assert RunningNormalizer((1,))(np.array([[0.5]])) == pytest.approx(0.5)


def test_restored_normalizer_continues_identically():
    rng = np.random.default_rng(0)
    one, other = RunningNormalizer((2,)), RunningNormalizer((2,))
    one.update(rng.normal(size=(5, 2)))
    state = one.get_state()
    one.update(rng.normal(size=(5, 2)))
    other.set_state(state)
    rng = np.random.default_rng(0)
    rng.normal(size=(5, 2))
    other.update(rng.normal(size=(5, 2)))
    assert state
    for key in state:
        np.testing.assert_array_equal(one.get_state()[key], other.get_state()[key])
