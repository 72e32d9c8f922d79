"""Tests of episodes of tabular processes: drawn ones against exact visits, counts by hand, impossible episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tabular_models import random_model, random_policy, two_states

from agents.errors import ConfigurationError
from agents.functional.tabular import TabularModel
from agents.functional.tabular_episodes import empirical_visits, sample_episodes
from agents.functional.visits import visits_of


def arrays(*episodes: list[int]) -> list[Any]:
    return [np.array(episode) for episode in episodes]


# --- drawn episodes


@pytest.mark.parametrize(("horizon", "gamma", "max_steps"), [(6, 1.0, None), (6, 0.8, None), (None, 0.6, 60)])
def test_drawn_episodes_have_the_visits_of_their_policy(horizon: int | None, gamma: float, max_steps: int | None):
    model = random_model(0, horizon=horizon, gamma=gamma)
    policy = random_policy(model, 1)
    n_episodes = 20_000
    episodes = sample_episodes(model, policy, n_episodes, np.random.default_rng(2), max_steps=max_steps)
    expected = visits_of(model, policy)
    for counted, exact in (
        (empirical_visits(model, episodes.states), expected.states),
        (empirical_visits(model, episodes.states, episodes.actions), expected.actions),
    ):
        # The variance of a number of visits is at most about its mean times the longest visit; five deviations.
        assert (np.abs(counted - exact) <= 5 * np.sqrt(np.maximum(exact, 1e-4) * 3 / n_episodes)).all()


def test_drawn_episodes_end_in_terminal_states_or_at_the_horizon():
    model = random_model(3, horizon=4)
    episodes = sample_episodes(model, random_policy(model, 4), 200, np.random.default_rng(5))
    for states, actions in zip(*episodes, strict=True):
        assert len(states) == len(actions) + 1 <= 5
        assert not model.terminal[states[:-1]].any()
        assert model.terminal[states[-1]] or len(actions) == 4
    assert {len(actions) for actions in episodes.actions} == {1, 2, 3, 4}


def test_impossible_transitions_and_actions_are_never_drawn():
    model = two_states(end=True, horizon=3)
    stay = np.array([[1.0, 0.0], [0.5, 0.5]])
    episodes = sample_episodes(model, stay, 500, np.random.default_rng(0))
    assert {tuple(states) for states in episodes.states} == {(0, 0, 0, 0)}
    assert {tuple(actions) for actions in episodes.actions} == {(0, 0, 0)}

    class Smallest(np.random.Generator):
        def random(self, size: Any) -> Any:  # type: ignore[override]
            return np.zeros(size)

    only_go = np.array([[0.0, 1.0], [0.5, 0.5]])
    (states,), (actions,) = sample_episodes(model, only_go, 1, Smallest(np.random.PCG64(0)))
    assert (states.tolist(), actions.tolist()) == ([0, 1], [1])


def test_the_same_generator_draws_the_same_episodes():
    model = random_model(6)
    one, same, other = (
        sample_episodes(model, random_policy(model, 7), 9, np.random.default_rng(seed)).states for seed in (1, 1, 2)
    )
    assert [states.tolist() for states in one] == [states.tolist() for states in same]
    assert [states.tolist() for states in one] != [states.tolist() for states in other]


@pytest.mark.parametrize(
    ("horizon", "n_episodes", "max_steps", "message"),
    [
        (2, 0, None, "n_episodes must be >= 1, got 0"),
        (2, 1, 5, "max_steps is for models without a horizon.* got 5 for a horizon of 2"),
        (None, 1, None, "required there; got None for a horizon of None"),
        (None, 1, 0, "max_steps must be >= 1, got 0"),
    ],
)
def test_bad_numbers_of_episodes_and_steps_are_refused(
    horizon: int | None, n_episodes: int, max_steps: int | None, message: str
):
    model = two_states(horizon=horizon, gamma=0.5)
    with pytest.raises(ConfigurationError, match=message):
        sample_episodes(model, np.full((2, 2), 0.5), n_episodes, np.random.default_rng(0), max_steps=max_steps)


# --- counts


def test_counts_by_hand():
    model = two_states(end=True, horizon=3)
    states = arrays([0, 0, 1], [0, 0, 0, 0])
    np.testing.assert_allclose(empirical_visits(model, states), [6 / 2, 1 / 2])
    np.testing.assert_allclose(empirical_visits(model, states, arrays([0, 1], [0, 0, 0])), [[4 / 2, 1 / 2], [0, 0]])


def test_discounted_counts_by_hand():
    model = two_states(end=True, horizon=None, gamma=0.5)
    states = arrays([0, 0, 1], [0])
    np.testing.assert_allclose(empirical_visits(model, states), [(1 + 1 / 2 + 1) / 2, 1 / 4 / 2])
    np.testing.assert_allclose(empirical_visits(model, states, [np.array([0, 1]), []]), [[1 / 2, 1 / 4], [0, 0]])


def test_lists_are_taken():
    assert empirical_visits(two_states(horizon=1), [[0, 1], [0, 0]]).tolist() == [1.5, 0.5]


TERMINAL = two_states(end=True, horizon=3)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "There are no episodes to count"),
        ([[0, 1], []], "Episode 1 has no states"),
        ([[0, 2, 1]], "states of episode 0 must be 0 to 1, got 2 at position 1"),
        ([[0, 1], [0, -1]], "states of episode 1 must be 0 to 1, got -1 at position 1"),
        ([np.array([0.0, 1.0])], r"states of episode 0 must be a vector of integers, got float64 \[2\]"),
        ([np.array([[0, 1]])], r"must be a vector of integers, got int64 \[1, 2\]"),
        ([[1]], "Episode 0 begins in state 1, where no episode of the model begins"),
        ([[0, 1, 1]], "Episode 0 continues at position 1 after state 1, which is terminal"),
        ([[0, 0, 0]], "Episode 0 ends after 2 actions in state 0, which is not terminal; the horizon is 3"),
        ([[0, 0, 0, 0, 1]], "Episode 0 has 4 actions, above the horizon of 3"),
    ],
)
def test_impossible_episodes_are_refused(episodes: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        empirical_visits(TERMINAL, episodes)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "There are 1 episodes of states, but 0 of actions"),
        ([[0, 1, 1]], "Episode 0 has 3 states and 3 actions; it must have one state more"),
        ([[0, 2]], "actions of episode 0 must be 0 to 1, got 2 at position 1"),
        ([[0, 0]], "Episode 0 goes from state 0 to 1 at position 1; in the model action 0 does so with probability 0"),
    ],
)
def test_impossible_actions_are_refused(actions: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        empirical_visits(TERMINAL, [[0, 0, 1]], actions)


def test_impossible_transitions_are_named():
    line = np.zeros((3, 2, 3))
    line[[0, 1, 2], :, [1, 2, 2]] = 1.0
    model = TabularModel(transitions=line, initial=[1, 0, 0], terminal=np.zeros(3, bool), horizon=2)
    empirical_visits(model, [[0, 1, 2]])
    with pytest.raises(
        ConfigurationError, match="Episode 1 goes from state 0 to 2 at position 0; in the model any action"
    ):
        empirical_visits(model, [[0, 1, 2], [0, 2, 2]])
