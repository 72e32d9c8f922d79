"""Transitions of environments as arrays: of Gymnasium's toy-text environments, and others with the same table."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.errors import ConfigurationError
from agents.functional.tabular import ROUNDING, TabularModel

Array = np.ndarray[Any, Any]
Outcomes = list[tuple[float, int, float, bool]]

LARGEST = 50_000_000
"""Largest number of transition probabilities; they take 400 MB."""

FORM = "P[state][action] = [(probability, next state, reward, terminated), ...]"


def model_of(environment: gym.Env[Any, Any], *, horizon: int | None = None, gamma: float = 1.0) -> TabularModel:
    """Return the transitions of an environment with a table `P`, as FrozenLake, Taxi, CliffWalking and `GridWorld`
    have it.

    Wrappers are ignored except for a time limit: the table and `initial_state_distrib` must be those of
    `env.unwrapped`. A state is terminal if a transition into it terminates.

    Args:
        environment: A made environment, with numbered states and actions.
        horizon: Number of actions after which an episode ends, >= 1. Defaults to None: the time limit where `gamma` is
            1, none where it is below.
        gamma: Discount, above 0 and at most 1. Defaults to `1.0`.

    Raises:
        ConfigurationError: The environment has no such table, or it has no time limit and `gamma` is 1; states or
            actions are not numbered from 0; probabilities do not sum to 1; the table lacks an entry or names a state
            that does not exist; a state ends some episodes that enter it but not others; or there are more than 50
            million transition probabilities.
    """
    inner: Any = environment.unwrapped
    label = environment.spec.id if environment.spec is not None else type(inner).__name__
    if not hasattr(inner, "P") or not hasattr(inner, "initial_state_distrib"):
        lacking = "P" if not hasattr(inner, "P") else "initial_state_distrib"
        raise ConfigurationError(
            f"Environment {label!r} has no {lacking}. As Gymnasium's toy-text environments, it needs a table {FORM}, "
            "and the probabilities of first states, initial_state_distrib."
        )
    n_states = _size(inner.observation_space, "observation space", label)
    n_actions = _size(inner.action_space, "action space", label)
    if n_states**2 * n_actions > LARGEST:
        raise ConfigurationError(
            f"Environment {label!r} is too large: {n_states:,} states and {n_actions:,} actions have "
            f"{n_states**2 * n_actions:,} transition probabilities; at most {LARGEST:,} are allowed."
        )
    if horizon is None and gamma == 1.0:
        horizon = environment.spec.max_episode_steps if environment.spec is not None else None
        if horizon is None:
            raise ConfigurationError(f"Environment {label!r} has no time limit: give a horizon, or a gamma below 1.")
    initial = np.asarray(inner.initial_state_distrib, np.float64)
    if initial.shape != (n_states,):
        raise ConfigurationError(
            f"initial_state_distrib of {label!r} must have the shape [{n_states}], got {list(initial.shape)}."
        )
    table = {
        (state, action): _checked_outcomes(inner.P, state, action, n_states, label)
        for state in range(n_states)
        for action in range(n_actions)
    }
    transitions, rewards = np.zeros((n_states, n_actions, n_states)), np.zeros((n_states, n_actions))
    for (state, action), outcomes in table.items():
        for probability, following, reward, _ in outcomes:
            transitions[state, action, following] += probability
            rewards[state, action] += probability * reward
    return TabularModel(
        transitions=transitions, initial=initial, terminal=_terminal(table, initial, label), rewards=rewards,
        horizon=horizon, gamma=gamma,
    )  # fmt: skip


def _size(space: spaces.Space[Any], name: str, label: str) -> int:
    if not isinstance(space, spaces.Discrete) or space.start != 0:
        raise ConfigurationError(f"The {name} of {label!r} must be Discrete and begin at 0, got {space}.")
    return int(space.n)


def _checked_outcomes(table: Any, state: int, action: int, n_states: int, label: str) -> Outcomes:
    where = f"P[{state}][{action}] of {label!r}"
    try:
        outcomes = [
            (float(chance), int(to), float(reward), bool(end)) for chance, to, reward, end in table[state][action]
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{where} is missing or wrong ({error!r}); the form is {FORM}.") from error
    for chance, following, reward, _ in outcomes:
        if not chance >= 0.0 or not 0 <= following < n_states or not math.isfinite(reward):
            raise ConfigurationError(
                f"{where} has the outcome (probability {chance}, next state {following}, reward {reward}): "
                f"probabilities must be >= 0, states 0 to {n_states - 1}, and rewards finite."
            )
    total = sum(chance for chance, *_ in outcomes)
    if not abs(total - 1.0) <= ROUNDING:
        raise ConfigurationError(f"The probabilities of {where} sum to {total:.9g} instead of 1.")
    return [outcome for outcome in outcomes if outcome[0] > 0.0]


def _terminal(table: dict[tuple[int, int], Outcomes], initial: Array, label: str) -> Array:
    """Return which states end an episode, [S] bool. Where no episode comes, the table may be inconsistent."""
    n_actions = 1 + max(action for _, action in table)
    entered = {int(state) for state in np.flatnonzero(initial > 0.0)}
    ending: set[int] = set()
    left = list(entered)
    while left:
        state = left.pop()
        for action in range(n_actions):
            for _, following, _, ends in table[state, action]:
                if ends:
                    ending.add(following)
                elif following not in entered:
                    entered.add(following)
                    left.append(following)
    both = entered & ending
    if both:
        raise ConfigurationError(
            f"State {min(both)} of {label!r} ends some of the episodes that enter it, but not all: let those that end "
            "enter a state of their own."
        )
    ending |= {following for outcomes in table.values() for _, following, _, ends in outcomes if ends} - entered
    result = np.zeros(len(initial), bool)
    result[sorted(ending)] = True
    return result
