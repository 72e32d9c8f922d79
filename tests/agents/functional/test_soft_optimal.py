"""Tests of soft-optimal policies: by hand, by enumeration of all paths, invariances and limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tabular_models import random_model, two_states

from agents.errors import ConfigurationError
from agents.functional.soft_optimal import soft_max, soft_optimal
from agents.functional.tabular import TabularModel
from agents.functional.visits import policy_values, visits_of

LOG2, LOG3, LOG5 = np.log([2.0, 3.0, 5.0])

# --- by hand


def test_soft_values_by_hand():
    # Rewards 0 and log 2: the last action leads to exp(V) = 1 or 2, so exp(V) of the state before is 3, or 2 * 3; and
    # that of the first state 3 + 6, or 2 * (3 + 6).
    soft = soft_optimal(two_states(horizon=2), np.array([0.0, LOG2]))
    np.testing.assert_allclose(np.exp(soft.values), [[9, 18], [3, 6], [1, 2]], rtol=1e-14)
    np.testing.assert_allclose(soft.policy, [[[1 / 3, 2 / 3], [2 / 3, 1 / 3]]] * 2, rtol=1e-14)


def test_soft_values_with_a_terminal_state_by_hand():
    # exp(V) of the terminal state is 2 at all times; of state 0: 1 at the end, 1 + 2 before, and 3 + 2 at first.
    model = two_states(end=True, horizon=2)
    soft = soft_optimal(model, np.array([0.0, LOG2]))
    np.testing.assert_allclose(soft.values, [[LOG5, LOG2], [LOG3, LOG2], [0, LOG2]], rtol=1e-14)
    np.testing.assert_allclose(soft.policy[:, 0], [[3 / 5, 2 / 5], [1 / 3, 2 / 3]], rtol=1e-14)
    # State 0: first, then after staying once, then twice. State 1: after going at once, or in the second step.
    np.testing.assert_allclose(visits_of(model, soft.policy).states, [1 + 3 / 5 + 1 / 5, 2 / 5 + 2 / 5], rtol=1e-14)


def test_rewards_of_actions_by_hand():
    # Going from state 0 is worth log 2. The last state of an episode has no action, hence no reward.
    model = two_states(end=True, horizon=2)
    soft = soft_optimal(model, np.array([[0.0, LOG2], [5.0, -5.0]]))
    np.testing.assert_allclose(soft.values, [[LOG5, 0], [LOG3, 0], [0, 0]], rtol=1e-14, atol=1e-15)


def test_discounted_soft_values_without_a_horizon_by_hand():
    # By symmetry V(1) = V(0) + log 2, so V(0) = log(exp(V(0) / 2) + exp((V(0) + log 2) / 2)) = V(0) / 2 + log(1 + √2).
    soft = soft_optimal(two_states(horizon=None, gamma=0.5), np.array([0.0, LOG2]))
    first = 2 * np.log(1 + np.sqrt(2))
    np.testing.assert_allclose(soft.values, [first, first + LOG2], rtol=1e-13)
    stays = 1 / (1 + np.sqrt(2))
    np.testing.assert_allclose(soft.policy, [[stays, 1 - stays], [1 - stays, stays]], rtol=1e-13)


def test_soft_max_by_hand():
    values, probabilities = soft_max(np.log([[1.0, 2.0, 5.0]]), 1.0)
    assert values == pytest.approx([np.log(8)])
    np.testing.assert_allclose(probabilities, [[1 / 8, 2 / 8, 5 / 8]])
    values, probabilities = soft_max(np.array([0.0, 2.0 * LOG3]), 2.0)
    assert values == pytest.approx(2 * np.log(4))
    np.testing.assert_allclose(probabilities, [1 / 4, 3 / 4])


def test_soft_max_of_huge_values():
    values, probabilities = soft_max(np.array([[1e6, 1e6 - 1e3], [-1e6, -1e6]]), 1.0)
    np.testing.assert_allclose(values, [1e6, -1e6 + LOG2], rtol=1e-15)
    assert probabilities.tolist() == [[1.0, 0.0], [0.5, 0.5]]


# --- against other ways to compute the same


def test_without_chance_paths_have_the_probability_of_their_exponential_reward():
    """Compare with the maximum entropy distribution over paths (Ziebart et al. 2008)."""
    rng = np.random.default_rng(0)
    successors, reward, horizon = rng.integers(0, 4, (4, 3)), rng.normal(size=4), 4
    model = TabularModel(
        transitions=np.eye(4)[successors], initial=np.eye(4)[0], terminal=np.arange(4) == 3, horizon=horizon
    )
    totals, counts = [], []
    paths = set()
    for actions in itertools.product(range(3), repeat=horizon):
        states = [0]
        for action in actions:
            if states[-1] == 3:
                break
            states.append(int(successors[states[-1], action]))
        paths.add((tuple(states), actions[: len(states) - 1]))
    for states, _ in paths:
        totals.append(reward[list(states)].sum())
        counts.append(np.bincount(states, minlength=4))
    weights = np.exp(totals) / np.exp(totals).sum()
    soft = soft_optimal(model, reward)
    assert soft.values[0, 0] == pytest.approx(np.log(np.exp(totals).sum()), rel=1e-13)
    np.testing.assert_allclose(visits_of(model, soft.policy).states, weights @ np.array(counts), rtol=1e-12)


def test_no_horizon_is_the_limit_of_long_horizons():
    reward = np.arange(5.0)
    endless = soft_optimal(random_model(1, horizon=None, gamma=0.9), reward, temperature=0.7)
    long = soft_optimal(random_model(1, horizon=400, gamma=0.9), reward, temperature=0.7)
    np.testing.assert_allclose(endless.values, long.values[0], rtol=1e-12)
    np.testing.assert_allclose(endless.policy, long.policy[0], rtol=1e-10)


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_no_policy_has_more_reward_and_entropy(temperature: float):
    model = random_model(2, horizon=None, gamma=0.9)
    soft = soft_optimal(model, model.rewards, temperature=temperature)

    def objective(policy):
        return model.initial @ policy_values(model, policy, model.rewards - temperature * np.log(policy))

    assert objective(soft.policy) == pytest.approx(model.initial @ soft.values, rel=1e-12)
    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(3), 5)
        for share in (0.01, 1.0):
            assert objective((1 - share) * soft.policy + share * other) < objective(soft.policy)


# --- invariances and limits


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_a_constant_changes_nothing_where_all_episodes_are_equally_long(gamma: float):
    model, reward = random_model(3, n_terminal=0, gamma=gamma), np.arange(5.0)
    before, after = soft_optimal(model, reward), soft_optimal(model, reward + 3.0)
    np.testing.assert_allclose(after.policy, before.policy, rtol=1e-12)
    np.testing.assert_allclose(after.values[0], before.values[0] + 3.0 * model.longest, rtol=1e-12)


def test_a_constant_matters_where_episodes_may_end_early():
    model, reward = random_model(3, n_terminal=1), np.arange(5.0)
    lengths = [visits_of(model, soft_optimal(model, reward + c).policy).states.sum() for c in (-3.0, 0.0, 3.0)]
    assert lengths[0] + 0.1 < lengths[1] < lengths[2] - 0.1


def test_potential_shaping_changes_nothing_without_a_horizon():
    model = random_model(4, horizon=None, gamma=0.9)
    potential = np.where(model.terminal, 0.0, np.random.default_rng(5).normal(size=5))
    shaped = model.rewards + model.gamma * model.expected(potential) - potential[:, None]
    before, after = soft_optimal(model, model.rewards), soft_optimal(model, shaped)
    np.testing.assert_allclose(after.policy[:-1], before.policy[:-1], rtol=1e-11)
    np.testing.assert_allclose(after.values, before.values - potential, rtol=1e-10)


@pytest.mark.parametrize(("horizon", "gamma"), [(6, 1.0), (None, 0.9)])
def test_policies_depend_on_the_reward_divided_by_the_temperature(horizon: int | None, gamma: float):
    model = random_model(6, horizon=horizon, gamma=gamma)
    hot, one = soft_optimal(model, model.rewards, temperature=2.5), soft_optimal(model, model.rewards / 2.5)
    np.testing.assert_allclose(hot.policy, one.policy, rtol=1e-11)
    np.testing.assert_allclose(hot.values, 2.5 * one.values, rtol=1e-11)


@pytest.mark.parametrize(("horizon", "gamma"), [(6, 1.0), (None, 0.9)])
def test_temperatures_go_from_optimal_to_uniform(horizon: int | None, gamma: float):
    model = random_model(7, horizon=horizon, gamma=gamma)
    values = np.zeros(5)
    for _ in range(6 if horizon else 500):  # hard value iteration
        values = np.where(model.terminal, 0.0, (model.rewards + gamma * model.transitions @ values).max(axis=1))
    cold = soft_optimal(model, model.rewards, temperature=1e-4)
    np.testing.assert_allclose(cold.values[0] if horizon else cold.values, values, atol=2e-3)
    model = random_model(7, n_terminal=0, horizon=horizon, gamma=gamma)  # terminal states would cost entropy
    hot = soft_optimal(model, model.rewards, temperature=1e6)
    np.testing.assert_allclose(hot.policy, np.full(hot.policy.shape, 1 / 3), rtol=1e-4)


@pytest.mark.parametrize(("horizon", "gamma"), [(50, 1.0), (None, 0.999)])
def test_huge_rewards_stay_finite(horizon: int | None, gamma: float):
    model = random_model(8, horizon=horizon, gamma=gamma)
    for sign in (-1.0, 1.0):
        soft = soft_optimal(model, sign * 1e6 * np.arange(5.0))
        assert np.isfinite(soft.values).all()
        np.testing.assert_allclose(soft.policy.sum(axis=-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_temperatures_out_of_range_are_refused(temperature: float):
    with pytest.raises(ConfigurationError, match="temperature must be a finite number above 0"):
        soft_optimal(two_states(), np.zeros(2), temperature=temperature)
