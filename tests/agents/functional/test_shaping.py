"""Tests of rewards without potential shaping."""

from __future__ import annotations

import numpy as np
import pytest
from tabular_models import random_model, two_states

from agents.errors import ConfigurationError
from agents.functional.shaping import without_shaping


def test_by_hand():
    # Without a discount, shaping is 0 for staying, and opposite for going there and back: of these rewards, 3 and -1,
    # the mean remains.
    rewards = np.array([[5.0, 3.0], [7.0, -1.0]])
    np.testing.assert_allclose(without_shaping(two_states(horizon=2), rewards), [[5, 1], [7, 1]], atol=1e-14)


def test_potentials_of_terminal_states_are_0():
    # The only potential is that of state 0: shaping is 0 for staying and its negative for going.
    rewards = np.array([[5.0, 3.0], [7.0, -1.0]])
    np.testing.assert_allclose(without_shaping(two_states(end=True), rewards), [[5, 0], [0, 0]], atol=1e-14)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_shaping_is_removed(gamma: float, weighted: bool):
    model, rng = random_model(0, gamma=gamma), np.random.default_rng(1)
    potential = np.where(model.terminal, 0.0, rng.normal(size=5))
    shaped = model.rewards + gamma * model.expected(potential) - potential[:, None]
    weights = rng.random((5, 3)) if weighted else None
    expected = without_shaping(model, model.rewards, weights)
    np.testing.assert_allclose(without_shaping(model, shaped, weights), expected, atol=1e-12)
    np.testing.assert_allclose(without_shaping(model, expected, weights), expected, atol=1e-12)
    assert np.abs(expected).max() > 0.1


def test_rewards_of_states_count_for_the_actions_that_lead_there():
    model, reward = random_model(2, gamma=0.9), np.arange(5.0)
    np.testing.assert_allclose(
        without_shaping(model, reward), without_shaping(model, 0.9 * model.transitions @ reward), atol=1e-12
    )


def test_weights_by_hand():
    # Of 3 with the weight 1 and -1 with the weight 3, the opposite parts 1.5 and -1.5 leave the least squares.
    rewards, weights = np.array([[5.0, 3.0], [7.0, -1.0]]), np.array([[1.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(without_shaping(two_states(), rewards, weights), [[5, 1.5], [7, 0.5]], atol=1e-14)


def test_actions_of_weight_0_do_not_count():
    model = two_states(horizon=2)
    weights = np.array([[1.0, 1.0], [1.0, 0.0]])
    one, other = (without_shaping(model, np.array([[5.0, 3.0], [7.0, last]]), weights) for last in (-1.0, 8.0))
    np.testing.assert_allclose(one, [[5, 0], [7, 0]], atol=1e-14)
    np.testing.assert_allclose(other, one, atol=1e-14)


def test_bad_weights_are_refused():
    for weights in (np.ones(2), -np.ones((2, 2)), np.full((2, 2), np.nan)):
        with pytest.raises(ConfigurationError, match=r"weights must be >= 0 and have the shape \[S, A\] = \[2, 2\]"):
            without_shaping(two_states(), np.zeros(2), weights)
