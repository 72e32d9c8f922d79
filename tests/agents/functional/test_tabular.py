"""Tests of tabular processes and of visits and values of their policies: by hand, by matrix powers, by naive loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tabular_models import random_model, random_policy, two_states

from agents.errors import ConfigurationError
from agents.functional.tabular import TabularModel, reward_parts
from agents.functional.visits import policy_values, visits_of

HALF = np.full((2, 2), 0.5)

# --- by hand


def test_visits_by_hand():
    # Half of what is in state 0 goes to state 1 in each step, and half of what is in state 1 comes back.
    visits = visits_of(two_states(horizon=2), HALF)
    np.testing.assert_allclose(visits.states, [1 + 1 / 2 + 1 / 2, 1 / 2 + 1 / 2], rtol=1e-15)
    np.testing.assert_allclose(visits.actions, [[3 / 4, 3 / 4], [1 / 4, 1 / 4]], rtol=1e-15)


def test_episodes_end_in_a_terminal_state():
    visits = visits_of(two_states(end=True, horizon=2), HALF)
    np.testing.assert_allclose(visits.states, [1 + 1 / 2 + 1 / 4, 1 / 2 + 1 / 4], rtol=1e-15)
    np.testing.assert_allclose(visits.actions, [[3 / 4, 3 / 4], [0, 0]], rtol=1e-15)


def test_policies_may_change_over_time():
    stay_then_go = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    assert visits_of(two_states(horizon=2), stay_then_go).states.tolist() == [2.0, 1.0]
    assert visits_of(two_states(horizon=2), stay_then_go[::-1]).states.tolist() == [1.0, 2.0]


def test_discounted_visits_without_a_horizon_by_hand():
    # In the terminal process state 0 is left with probability 1/2: visits 1 / (1 - 1/4), of which half of half arrive.
    visits = visits_of(two_states(end=True, horizon=None, gamma=0.5), HALF)
    np.testing.assert_allclose(visits.states, [4 / 3, 4 / 3 * 1 / 4], rtol=1e-15)
    np.testing.assert_allclose(visits.actions, [[2 / 3, 2 / 3], [0, 0]], rtol=1e-15)


def test_values_by_hand():
    # A reward of 1 in state 1, also where the episode ends.
    values = policy_values(two_states(horizon=2), HALF, np.array([0.0, 1.0]))
    np.testing.assert_allclose(values, [[1 / 2 + 1 / 2, 1 + 1 / 2 + 1 / 2], [1 / 2, 1 + 1 / 2], [0, 1]], rtol=1e-15)
    # A reward of 1 for going from state 0 to 1; none for actions of terminal states.
    values = policy_values(two_states(end=True, horizon=2), HALF, np.array([[0.0, 1.0], [7.0, 7.0]]))
    np.testing.assert_allclose(values, [[1 / 2 + 1 / 4, 0], [1 / 2, 0], [0, 0]], rtol=1e-15)


# --- against other ways to compute the same


@pytest.mark.parametrize("n_terminal", [0, 2])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_visits_equal_matrix_powers(n_terminal: int, gamma: float):
    model = random_model(0, n_terminal=n_terminal, horizon=7, gamma=gamma)
    policy = random_policy(model, 1, stationary=True)
    matrix = np.einsum("sa,sat->st", policy, model.transitions)  # terminal states keep what has arrived
    at = np.stack([model.initial @ np.linalg.matrix_power(matrix, t) for t in range(8)])
    at[1:, model.terminal] -= at[:-1, model.terminal].copy()  # an episode visits its terminal state once
    np.testing.assert_allclose(visits_of(model, policy).states, gamma ** np.arange(8) @ at, rtol=1e-12)
    if gamma == 1.0 and n_terminal:
        arrived = model.initial @ np.linalg.matrix_power(matrix, 7)
        np.testing.assert_allclose(visits_of(model, policy).states[model.terminal], arrived[model.terminal], rtol=1e-12)


@pytest.mark.parametrize("n_terminal", [0, 1])
def test_no_horizon_is_the_limit_of_long_horizons(n_terminal: int):
    endless = random_model(2, n_terminal=n_terminal, horizon=None, gamma=0.8)
    long = random_model(2, n_terminal=n_terminal, horizon=200, gamma=0.8)
    policy = random_policy(endless, 3)
    for found, expected in zip(visits_of(endless, policy), visits_of(long, policy), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    for reward in (endless.rewards, np.arange(5.0)):
        expected = policy_values(long, policy, reward)[0]
        np.testing.assert_allclose(policy_values(endless, policy, reward), expected, rtol=1e-12)
    assert long.longest == pytest.approx(endless.longest)
    if not n_terminal:
        assert visits_of(endless, policy).states.sum() == pytest.approx(endless.longest, rel=1e-12)


@pytest.mark.parametrize(("horizon", "gamma"), [(6, 1.0), (6, 0.7), (None, 0.7)])
@pytest.mark.parametrize("kind", ["states", "actions"])
def test_visits_times_rewards_are_the_value_of_the_beginning(horizon: int | None, gamma: float, kind: str):
    model = random_model(4, horizon=horizon, gamma=gamma)
    policy = random_policy(model, 5)
    reward = np.random.default_rng(6).normal(size=(5,) if kind == "states" else (5, 3))
    values = policy_values(model, policy, reward)
    value = model.initial @ (values if horizon is None else values[0])
    assert np.sum(getattr(visits_of(model, policy), kind) * reward) == pytest.approx(value, rel=1e-12)


def test_visits_equal_those_of_a_naive_loop_over_paths():
    model = random_model(7, n_states=3, n_actions=2, horizon=3, gamma=0.9)
    policy = random_policy(model, 8)
    states, actions = np.zeros(3), np.zeros((3, 2))

    def follow(state: int, t: int, weight: float) -> None:
        states[state] += weight
        if t == 3 or model.terminal[state]:
            return
        for action in range(2):
            chosen = weight * policy[t, state, action]
            actions[state, action] += chosen
            for following in range(3):
                follow(following, t + 1, 0.9 * chosen * model.transitions[state, action, following])

    for state in range(3):
        follow(state, 0, model.initial[state])
    found = visits_of(model, policy)
    np.testing.assert_allclose(found.states, states, rtol=1e-12)
    np.testing.assert_allclose(found.actions, actions, rtol=1e-12)


def test_reachable_states():
    line = np.zeros((4, 1, 4))
    line[[0, 1, 2, 3], 0, [1, 2, 3, 3]] = 1.0
    parts: dict[str, Any] = {"transitions": line, "initial": np.eye(4)[0]}
    nowhere, second = np.zeros(4, bool), np.arange(4) == 1
    assert TabularModel(**parts, terminal=nowhere, horizon=2).reachable().tolist() == [True, True, True, False]
    assert TabularModel(**parts, terminal=nowhere, gamma=0.5).reachable().tolist() == [True] * 4
    assert TabularModel(**parts, terminal=second, horizon=9).reachable().tolist() == [True, True, False, False]


# --- models


def test_terminal_states_absorb_whatever_their_rows_were():
    model = random_model(0, n_terminal=2)
    assert (model.transitions[3:] == np.eye(5)[3:, None]).all()
    assert (model.rewards[3:] == 0.0).all()
    assert (model.rewards[:3] != 0.0).all()


def test_models_own_their_arrays():
    transitions = np.ones((1, 1, 1))
    model = TabularModel(transitions=transitions, initial=[1.0], terminal=[False], horizon=1)
    transitions[:] = 0.0
    assert model.transitions.tolist() == [[[1.0]]]
    with pytest.raises(ValueError, match="read-only"):
        model.initial[0] = 0.0


UNEVEN = np.stack([np.eye(2), [[1.0, 0.0], [0.5, 0.4]]], axis=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": np.ones((2, 3))}, r"transitions must have the shape \[S, A, S\], got \[2, 3\]"),
        ({"transitions": np.ones((2, 1, 3))}, r"shape \[S, A, S\], got \[2, 1, 3\]"),
        ({"transitions": UNEVEN}, r"sum to 1; those of transitions\[1, 1\] sum to 0\.9"),
        ({"transitions": np.stack([np.eye(2), [[2.0, -1.0], [0, 1]]], axis=1)}, r"transitions\[0, 1\] contain -1"),
        ({"transitions": np.full((2, 1, 2), np.nan)}, r"transitions\[0, 0\] contain nan"),
        ({"initial": [0.5, 0.4]}, r"those of initial sum to 0\.9"),
        ({"initial": [1.0]}, r"initial must have the shape \[2\], got \[1\]"),
        ({"terminal": [0, 1]}, "terminal must be an array of bool, got int64"),
        ({"terminal": [True]}, r"terminal must have the shape \[2\]"),
        ({"rewards": np.zeros(2)}, r"rewards must have the shape \[2, 2\], got \[2\]"),
        ({"rewards": [[0, 0], [0, np.inf]]}, r"rewards must be finite, got inf at \[1, 1\]"),
        ({"horizon": 0}, "horizon must be an integer >= 1 or None, got 0"),
        ({"horizon": 2.5}, "horizon must be an integer >= 1 or None, got 2.5"),
        ({"horizon": None}, "give a horizon, or a gamma below 1"),
        ({"gamma": 1.5}, "gamma must be above 0 and at most 1, got 1.5"),
        ({"gamma": 0.0}, "gamma must be above 0"),
        ({"gamma": np.nan}, "gamma must be above 0 and at most 1, got nan"),
    ],
)
def test_bad_models_are_refused(changes: dict[str, Any], message: str):
    given = {"transitions": two_states().transitions, "initial": [1.0, 0.0], "terminal": [False, False], "horizon": 2}
    with pytest.raises(ConfigurationError, match=message):
        TabularModel(**{**given, **changes})


def test_rows_of_terminal_states_need_not_be_probabilities():
    model = TabularModel(transitions=np.stack([np.eye(2)] * 2, 1) * [[[1], [1]], [[0], [7]]], initial=[1, 0],
                         terminal=[False, True], horizon=1)  # fmt: skip
    assert model.transitions[1].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 2), (2,)])
def test_policies_of_a_wrong_shape_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ConfigurationError, match=r"shape \[S, A\] = \[2, 2\] or \[T, S, A\] = \[2, 2, 2\], got"):
        visits_of(two_states(horizon=2), np.full(shape, 0.5))


def test_policies_that_do_not_sum_to_1_are_refused():
    with pytest.raises(ConfigurationError, match=r"those of policy\[1\] sum to 0\.8"):
        policy_values(two_states(), np.array([[0.5, 0.5], [0.4, 0.4]]), np.zeros(2))


def test_bad_rewards_are_refused():
    with pytest.raises(ConfigurationError, match=r"shape \[S\] = \[2\] or \[S, A\] = \[2, 2\], got \[3\]"):
        reward_parts(two_states(), np.zeros(3))
    with pytest.raises(ConfigurationError, match=r"finite, got nan at \[1\]"):
        reward_parts(two_states(), np.array([0.0, np.nan]))
