"""Tests of maximum causal entropy inverse reinforcement learning: derivatives, duality, visits, rewards, errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tabular_models import random_model, random_policy, two_states

import agents.environments.grid_world  # noqa: F401 - registers GridWorld-v0
from agents.environments.tabular import model_of
from agents.errors import ConfigurationError, ConvergenceError
from agents.functional.causal_entropy import Dual, FittedReward, fit_reward
from agents.functional.shaping import without_shaping
from agents.functional.soft_optimal import soft_optimal
from agents.functional.tabular import TabularModel
from agents.functional.tabular_episodes import empirical_visits, sample_episodes
from agents.functional.visits import visits_of

Array = np.ndarray[Any, Any]
ENDS = [(6, 1.0), (6, 0.7), (None, 0.7)]


def rewards_of(kind: str, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(5,) if kind == "states" else (5, 3))


def visits(model: TabularModel, policy: Array, kind: str = "states") -> Array:
    found: Array = getattr(visits_of(model, policy), kind)
    return found


# --- the dual


@pytest.mark.parametrize(("horizon", "gamma"), ENDS)
@pytest.mark.parametrize("kind", ["states", "actions"])
@pytest.mark.parametrize("n_features", [None, 2])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_derivatives_equal_finite_differences(
    horizon: int | None, gamma: float, kind: str, n_features: int | None, penalty: float
):
    model, rng = random_model(0, horizon=horizon, gamma=gamma), np.random.default_rng(1)
    expert = visits(model, random_policy(model, 2), kind)
    features = None if n_features is None else rng.normal(size=(*expert.shape, n_features))
    dual = Dual(model, expert, features, penalty=penalty)
    weights, direction = rng.normal(size=(2, *dual.wanted.shape))
    point, small = dual(weights), 1e-5
    steps = [dual(weights + small * sign * direction) for sign in (1, -1)]
    assert (steps[0].value - steps[1].value) / (2 * small) == pytest.approx(point.gradient @ direction, abs=1e-8)
    expected = (steps[0].gradient - steps[1].gradient) / (2 * small)
    np.testing.assert_allclose(point.product(direction), expected, atol=1e-8)


def test_gradient_by_hand():
    # At weight 0, half of each state goes to the other one: visits 2 and 1 (`test_tabular`), of the expert 1 and 2.
    dual = Dual(two_states(horizon=2), np.array([1.0, 2.0]), None)
    point = dual(np.zeros(2))
    np.testing.assert_allclose(point.gradient, [1.0, -1.0], atol=1e-15)
    assert point.value == pytest.approx(2 * np.log(2))


@pytest.mark.parametrize(("horizon", "gamma"), ENDS)
def test_the_dual_is_convex(horizon: int | None, gamma: float):
    model, rng = random_model(3, horizon=horizon, gamma=gamma), np.random.default_rng(4)
    dual = Dual(model, visits(model, random_policy(model, 5)), None)
    for weights in rng.normal(size=(5, 5)):
        point = dual(weights)
        matrix = np.stack([point.product(row) for row in np.eye(5)])
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)
        assert np.linalg.eigvalsh(matrix).min() > -1e-14


def test_the_least_value_of_the_dual_is_the_causal_entropy_of_the_fitted_policy():
    model = random_model(6, horizon=None, gamma=0.8)
    expert = visits(model, random_policy(model, 7))
    fitted = fit_reward(model, expert, tolerance=1e-10)
    entropy = -np.sum(visits(model, fitted.policy, "actions") * np.log(fitted.policy))
    assert Dual(model, expert, None)(fitted.weights).value == pytest.approx(entropy, rel=1e-8)


def test_no_policy_with_the_same_visits_has_more_causal_entropy():
    model = random_model(8, horizon=None, gamma=0.8)
    expert = random_policy(model, 9)  # soft-optimal for no reward of states

    def entropy(policy: Array) -> float:
        return -float(np.sum(visits(model, policy, "actions") * np.log(policy)))

    fitted = fit_reward(model, visits(model, expert), tolerance=1e-10)
    np.testing.assert_allclose(visits(model, fitted.policy), visits(model, expert), atol=1e-9)
    assert entropy(fitted.policy) > entropy(expert) + 0.01
    # Visits of actions between the two have the same visits of states too.
    for share in (0.01, 0.5):
        mixed = share * visits(model, expert, "actions") + (1 - share) * visits(model, fitted.policy, "actions")
        policy = np.where(model.terminal[:, None], 1 / 3, mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300))
        assert entropy(policy) < entropy(fitted.policy)


# --- rewards


@pytest.mark.parametrize(("horizon", "gamma"), ENDS)
@pytest.mark.parametrize("n_terminal", [0, 1])
@pytest.mark.parametrize("kind", ["states", "actions"])
@pytest.mark.parametrize("seed", range(3))
def test_the_fitted_reward_has_the_visits_of_the_expert(
    horizon: int | None, gamma: float, n_terminal: int, kind: str, seed: int
):
    model = random_model(seed, n_terminal=n_terminal, horizon=horizon, gamma=gamma)
    expert = visits(model, soft_optimal(model, 2.0 * rewards_of(kind, seed)).policy, kind)
    fitted = fit_reward(model, expert)
    again = visits(model, soft_optimal(model, fitted.reward).policy, kind)
    assert np.abs(again - expert).max() <= 1e-6
    assert fitted.gap == pytest.approx(np.abs(fitted.visits - expert).max())
    np.testing.assert_allclose(fitted.visits, again, atol=1e-12)
    assert fitted.reward.shape == expert.shape


@pytest.mark.parametrize("stationary", [True, False])
def test_experts_need_not_be_soft_optimal(stationary: bool):
    model = random_model(10)
    expert = visits(model, random_policy(model, 11, stationary=stationary))
    assert np.abs(fit_reward(model, expert).visits - expert).max() <= 1e-6


def test_almost_deterministic_experts():
    model = random_model(12, n_states=8, n_terminal=1)
    expert = visits(model, soft_optimal(model, rewards_of("states", 1)[:1] + np.arange(8.0), temperature=1e-2).policy)
    fitted = fit_reward(model, expert)
    assert np.abs(visits(model, soft_optimal(model, fitted.reward).policy) - expert).max() <= 1e-6


def test_weights_of_features_are_recovered():
    model, rng = random_model(13, horizon=8), np.random.default_rng(14)
    for shape in ((5, 2), (5, 3, 2)):
        features, weights = rng.normal(size=shape), np.array([1.5, -0.5])
        kind = "states" if len(shape) == 2 else "actions"
        expert = visits(model, soft_optimal(model, features @ weights).policy, kind)
        fitted = fit_reward(model, expert, features=features, tolerance=1e-10)
        np.testing.assert_allclose(fitted.weights, weights, atol=1e-8)
        np.testing.assert_allclose(fitted.reward, features @ weights, atol=1e-7)
        assert fitted.visits.shape == expert.shape


def test_rewards_without_a_horizon_are_recovered_up_to_shaping():
    model = random_model(15, horizon=None, gamma=0.8)
    expert = visits(model, soft_optimal(model, model.rewards).policy, "actions")
    fitted = fit_reward(model, expert, tolerance=1e-11)
    expected = without_shaping(model, model.rewards)
    np.testing.assert_allclose(without_shaping(model, fitted.reward), expected, atol=1e-7)
    assert np.abs(fitted.reward - model.rewards).max() > 0.1


def test_rewards_of_states_with_a_horizon_are_recovered():
    model, reward = random_model(16, n_terminal=1, horizon=5), rewards_of("states", 17)
    fitted = fit_reward(model, visits(model, soft_optimal(model, reward).policy), tolerance=1e-11)
    np.testing.assert_allclose(fitted.reward, reward, atol=1e-6)
    model = random_model(16, n_terminal=0, horizon=5)  # equal lengths: the constant is lost
    fitted = fit_reward(model, visits(model, soft_optimal(model, reward).policy), tolerance=1e-11)
    np.testing.assert_allclose(fitted.reward - fitted.reward.mean(), reward - reward.mean(), atol=1e-6)
    assert abs(fitted.reward.mean() - reward.mean()) > 1e-2


@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_rewards_are_in_proportion_to_the_temperature(penalty: float):
    model = random_model(18)
    expert = visits(model, random_policy(model, 19))
    one = fit_reward(model, expert, penalty=penalty, tolerance=1e-10)
    two = fit_reward(model, expert, temperature=2.0, penalty=penalty / 2, tolerance=1e-10)
    np.testing.assert_allclose(two.reward, 2.0 * one.reward, atol=1e-7)
    np.testing.assert_allclose(two.policy, one.policy, atol=1e-7)
    np.testing.assert_allclose(soft_optimal(model, two.reward, temperature=2.0).policy, two.policy, atol=1e-12)


def test_the_penalty_is_the_difference_of_features_over_the_weights():
    model = random_model(20)
    expert = visits(model, random_policy(model, 21))
    fitted = fit_reward(model, expert, temperature=2.0, penalty=0.3, tolerance=1e-10)
    np.testing.assert_allclose(expert - fitted.visits, 0.3 * fitted.weights, atol=1e-9)
    assert fitted.gap == pytest.approx(0.3 * np.abs(fitted.weights).max(), abs=1e-9)
    assert np.abs(fitted.weights).max() < np.abs(fit_reward(model, expert, temperature=2.0).weights).max()


def test_visits_that_no_policy_has_need_a_penalty():
    model, counted = two_states(horizon=2), np.array([0.5, 2.5])  # at least 1 in state 0, where episodes begin
    with pytest.raises(ConfigurationError, match="No policy"):
        fit_reward(model, counted)
    fitted = fit_reward(model, counted, penalty=1e-3, tolerance=1e-8)
    np.testing.assert_allclose(fitted.visits, [1.0, 2.0], atol=1e-6)
    assert fitted.gap == pytest.approx(0.5, abs=1e-6)


def test_states_without_effect_have_a_reward_of_0():
    model = random_model(22)
    transitions = np.zeros((6, 3, 6))
    transitions[:5, :, :5], transitions[5, :, 0] = model.transitions, 1.0  # nothing leads to state 5
    larger = TabularModel(
        transitions=transitions, initial=np.append(model.initial, 0.0), terminal=np.append(model.terminal, False),
        horizon=6,
    )  # fmt: skip
    expert = visits(larger, soft_optimal(larger, np.arange(6.0)).policy)
    fitted = fit_reward(larger, expert)
    assert fitted.reward[5] == 0.0
    assert fitted.gap <= 1e-6


# --- a grid of 10 x 10


@pytest.fixture(scope="module")
def grid() -> TabularModel:
    return model_of(gym.make("GridWorld-v0", disable_env_checker=True), horizon=30)


@pytest.fixture(scope="module")
def grid_expert(grid: TabularModel) -> Array:
    reward = gym.make("GridWorld-v0", disable_env_checker=True).unwrapped.state_rewards  # type: ignore[attr-defined]
    policy: Array = soft_optimal(grid, reward, temperature=0.01).policy
    return policy


@pytest.mark.slow
def test_grid_world_from_exact_visits(grid: TabularModel, grid_expert: Array):
    expert = visits(grid, grid_expert)
    fitted = fit_reward(grid, expert, temperature=0.01)
    again = visits(grid, soft_optimal(grid, fitted.reward, temperature=0.01).policy)
    assert np.abs(again - expert).max() <= 1e-6
    inside = grid.reachable() & ~grid.terminal
    shown = [without_shaping(grid, reward)[inside].ravel() for reward in (fitted.reward, grid.rewards)]
    assert np.corrcoef(*shown)[0, 1] > 0.999


def test_grid_world_from_sampled_episodes(grid: TabularModel, grid_expert: Array):
    expert, gaps = visits(grid, grid_expert), []
    for n_episodes in (30, 3_000):
        episodes = sample_episodes(grid, grid_expert, n_episodes, np.random.default_rng(0))
        counted = empirical_visits(grid, episodes.states)
        fitted = fit_reward(grid, counted, temperature=0.01, penalty=1.0 / n_episodes, tolerance=1e-4)
        gaps.append(np.abs(fitted.visits - expert).max())
    assert gaps[1] < 0.05
    assert gaps[1] < gaps[0] / 5


# --- errors


@pytest.mark.parametrize(
    ("expert", "message"),
    [
        ([1.0], r"shape \[S\] = \[2\] or \[S, A\] = \[2, 2\], got \[1\]"),
        ([2.0, np.nan], r"expert_visits must be finite, got nan at \[1\]"),
        ([3.5, -0.5], r"must be >= 0; those of state 1 are -0.5"),
        ([200.0, 100.0], r"sum to 300, but an episode has at most 3 states.* divide counts"),
        ([0.5, 2.5], "No policy of the model has the expert's expected features: the dual is -"),
        ([1.5, 1.0], "No policy of the model has"),
        (np.full((2, 2), 0.7), "No policy of the model has"),
    ],
)
def test_impossible_visits_are_refused(expert: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        fit_reward(two_states(horizon=2), np.array(expert))


def test_rounding_errors_of_visits_are_no_visits():
    model = dataclasses.replace(two_states(), transitions=np.stack([np.eye(2)] * 2, axis=1))
    for error in (1e-15, -1e-15):
        assert fit_reward(model, np.array([3.0 - error, error])).gap <= 1e-6


def test_visits_of_states_that_cannot_be_reached_are_refused():
    model = dataclasses.replace(two_states(), transitions=np.stack([np.eye(2)] * 2, axis=1))
    with pytest.raises(ConfigurationError, match=r"visits state 1 0\.5 times an episode, but no policy can reach it"):
        fit_reward(model, np.array([2.5, 0.5]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": np.ones((3, 1))}, r"features must have the shape \[2, 'K'\], as expert_visits, got \[3, 1\]"),
        ({"features": np.ones(2)}, r"features must have the shape \[2, 'K'\]"),
        ({"features": np.ones((2, 0))}, r"got \[2, 0\]"),
        ({"features": np.full((2, 1), np.inf)}, "features must be finite, got inf"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0, got 0"),
        ({"penalty": -1.0}, "penalty must be a finite number >= 0, got -1"),
        ({"tolerance": 0.0}, "tolerance must be a finite number > 0, got 0"),
        ({"tolerance": np.nan}, "tolerance must be a finite number > 0, got nan"),
        ({"max_steps": 0}, "max_steps must be >= 1, got 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        fit_reward(two_states(horizon=2), np.array([1.5, 1.5]), **options)


def test_a_tolerance_that_is_not_reached_is_an_error():
    model = random_model(23)
    expert = visits(model, soft_optimal(model, 3.0 * rewards_of("states", 24)).policy)
    assert isinstance(fit_reward(model, expert), FittedReward)
    with pytest.raises(ConvergenceError, match=r"within 2 Newton steps: .* differ from the expert's by \d.* max_steps"):
        fit_reward(model, expert, max_steps=2)
