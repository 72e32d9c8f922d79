"""Tests of transitions of environments as arrays: Gymnasium's toy-text environments, and tables that are refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents.environments.grid_world import GridWorld
from agents.environments.tabular import model_of
from agents.errors import ConfigurationError
from agents.functional.soft_optimal import soft_optimal
from agents.functional.visits import policy_values, visits_of


class Table(gym.Env[Any, Any]):
    """An environment of three states with one action: 0 leads to 1 or 2, 1 to 2, where the episode ends."""

    def __init__(self, **changes: Any) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(1)
        self.initial_state_distrib = np.array([1.0, 0.0, 0.0])
        self.P: Any = {
            0: {0: [(0.5, 1, 2.0, False), (0.25, 2, 4.0, True), (0.25, 2, 8.0, True)]},
            1: {0: [(1.0, 2, 5.0, True)]},
            2: {0: [(1.0, 2, 9.0, True)]},
        }
        for name, value in changes.items():
            setattr(self, name, value)


def with_outcomes(*outcomes: Any) -> dict[str, Any]:
    return {"P": {**Table().P, 0: {0: [*outcomes]}}}


def test_arrays_by_hand():
    model = model_of(Table(), horizon=4)
    assert model.transitions[:, 0].tolist() == [[0, 0.5, 0.5], [0, 0, 1], [0, 0, 1]]
    assert model.rewards is not None
    assert model.rewards[:, 0].tolist() == [1 + 1 + 2, 5, 0]
    assert model.terminal.tolist() == [False, False, True]
    assert model.initial.tolist() == [1, 0, 0]
    assert (model.horizon, model.gamma) == (4, 1.0)


def test_lists_are_tables_too():
    model = model_of(Table(P=[[outcomes[0]] for outcomes in Table().P.values()]), horizon=4)
    np.testing.assert_array_equal(model.transitions, model_of(Table(), horizon=4).transitions)


@pytest.mark.parametrize(
    ("environment", "options", "sizes", "horizon", "ends"),
    [
        ("FrozenLake-v1", {}, (16, 4), 100, [5, 7, 11, 12, 15]),
        ("FrozenLake8x8-v1", {}, (64, 4), 200, [19, 29, 35, 41, 42, 46, 49, 52, 54, 59, 63]),
        ("CliffWalking-v1", {"max_episode_steps": 60}, (48, 4), 60, [47]),
        ("CliffWalkingSlippery-v1", {"max_episode_steps": 60}, (48, 4), 60, [47]),
        ("Taxi-v4", {}, (500, 6), 200, [0, 85, 410, 475]),
        ("agents.environments.grid_world:GridWorld-v0", {}, (100, 4), 100, [9, 99]),
    ],
)
def test_environments(environment: str, options: dict[str, Any], sizes: tuple[int, int], horizon: int, ends: list[int]):
    model = model_of(gym.make(environment, **options))
    assert (model.n_states, model.n_actions, model.horizon) == (*sizes, horizon)
    assert np.flatnonzero(model.terminal).tolist() == ends


@pytest.mark.parametrize("environment", ["FrozenLake-v1", "agents.environments.grid_world:GridWorld-v0"])
def test_episodes_of_the_environment_have_the_visits_and_returns_of_the_model(environment: str):
    made, n_episodes = gym.make(environment, max_episode_steps=15), 1_000
    model = model_of(made)
    assert model.rewards is not None
    policy = soft_optimal(model, model.rewards, temperature=0.05).policy
    counts, total, rng = np.zeros(model.n_states), 0.0, np.random.default_rng(0)
    made.reset(seed=0)
    for _ in range(n_episodes):
        state, _ = made.reset()
        for t in range(16):
            counts[state] += 1
            if t == 15 or model.terminal[state]:
                break
            state, reward, terminated, truncated, _ = made.step(int(rng.choice(4, p=policy[t, state])))
            total += float(reward)
            assert terminated == model.terminal[state]
            assert terminated or truncated == (t == 14)
    exact = visits_of(model, policy).states
    assert (np.abs(counts / n_episodes - exact) <= 6 * np.sqrt(np.maximum(exact, 1e-3) * 4 / n_episodes)).all()
    value = model.initial @ policy_values(model, policy, model.rewards)[0]
    assert total / n_episodes == pytest.approx(value, abs=0.06)


def test_taxi_is_solved():
    model = model_of(gym.make("Taxi-v4"))
    assert model.rewards is not None
    values = soft_optimal(model, model.rewards, temperature=1e-3).values[0]
    assert 7.5 < model.initial @ values < 8.5  # the known mean of optimal episodes is 7.9


def test_horizons():
    lake = gym.make("FrozenLake-v1")
    assert model_of(lake, horizon=7).horizon == 7
    assert model_of(lake, gamma=0.9).horizon is None
    assert model_of(lake, horizon=7, gamma=0.9).horizon == 7
    assert model_of(gym.wrappers.TimeLimit(GridWorld(), 5), horizon=9).horizon == 9
    with pytest.raises(
        ConfigurationError, match="'CliffWalking-v1' has no time limit: give a horizon, or a gamma below"
    ):
        model_of(gym.make("CliffWalking-v1"))


def test_states_that_no_episode_reaches_may_be_inconsistent():
    # State 2 ends no episode in the row of state 0, which nothing leads to.
    table = Table(initial_state_distrib=np.array([0.0, 1.0, 0.0]))
    table.P[0] = {0: [(1.0, 2, 0.0, False)]}
    assert model_of(table, horizon=3).terminal.tolist() == [False, False, True]
    # State 1 ends no episode but in the row of state 3, which nothing leads to.
    table = Table(initial_state_distrib=np.eye(4)[0], observation_space=gym.spaces.Discrete(4))
    table.P[3] = {0: [(1.0, 1, 0.0, True)]}
    assert model_of(table, horizon=3).terminal.tolist() == [False, False, True, False]


def test_outcomes_of_probability_0_do_not_count():
    outcomes = with_outcomes((1.0, 1, 2.0, False), (0.0, 1, 2.0, True))
    assert model_of(Table(**outcomes), horizon=3).terminal.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (with_outcomes((0.5, 1, 0.0, False), (0.4, 2, 0.0, True)), r"P\[0\]\[0\] of 'Table' sum to 0\.9 instead of 1"),
        (with_outcomes((1.5, 1, 0.0, False), (-0.5, 2, 0.0, True)), r"outcome \(probability -0\.5, next state 2"),
        (with_outcomes((1.0, 3, 0.0, False)), r"next state 3.*states 0 to 2"),
        (with_outcomes((1.0, 1, np.inf, False)), r"reward inf\).*rewards finite"),
        (with_outcomes((np.nan, 1, 0.0, False)), "probability nan"),
        (with_outcomes((1.0, 1)), r"P\[0\]\[0\] of 'Table' is missing or wrong .*the form is P\[state\]\[action\]"),
        ({"P": {0: {0: []}}}, r"The probabilities of P\[0\]\[0\] of 'Table' sum to 0 instead of 1"),
        ({"P": {}}, r"P\[0\]\[0\] of 'Table' is missing or wrong"),
        (with_outcomes((0.5, 2, 0.0, False), (0.5, 2, 0.0, True)), "State 2 of 'Table' ends some of the episodes"),
        ({"initial_state_distrib": np.array([0.5, 0.0, 0.0])}, "those of initial sum to 0.5"),
        ({"initial_state_distrib": np.array([0.5, 0.0, 0.5])}, "State 2 of 'Table' ends some of the episodes"),
        (
            {"initial_state_distrib": np.array([1.0])},
            r"initial_state_distrib of 'Table' must have the shape \[3\], got \[1\]",
        ),
        (
            {"observation_space": gym.spaces.Box(0, 1)},
            "The observation space of 'Table' must be Discrete and begin at 0",
        ),
        ({"action_space": gym.spaces.Discrete(1, start=1)}, "The action space of 'Table' must be Discrete"),
        ({"observation_space": gym.spaces.Discrete(10_000)}, "'Table' is too large: 10,000 states and 1 actions have "),
    ],
)
def test_bad_tables_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        model_of(Table(**changes), horizon=4)


@pytest.mark.parametrize("name", ["P", "initial_state_distrib"])
def test_environments_without_a_table_are_refused(name: str):
    table = Table()
    delattr(table, name)
    with pytest.raises(ConfigurationError, match=f"'Table' has no {name}. As Gymnasium's toy-text environments"):
        model_of(table, horizon=4)
    with pytest.raises(ConfigurationError, match="'CartPole-v1' has no P"):
        model_of(gym.make("CartPole-v1"))
