"""Soft-optimal policies: those of largest expected reward plus causal entropy (Ziebart 2010, chapter 6).

With a temperature τ, the soft values of states and actions satisfy

    Q(s, a) = r(s, a) + γ E[V(s')]
    V(s)    = r(s) + τ log Σ_a exp(Q(s, a) / τ)

and the policy is π(a | s) ∝ exp(Q(s, a) / τ). In the last state of an episode, V(s) = r(s).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.errors import ConfigurationError, ConvergenceError
from agents.functional.tabular import Array, TabularModel, reward_parts
from agents.functional.visits import Chain

SOLVED = 1e-12
"""Error of the soft Bellman equation, relative to the largest value, after which only one more step is made."""

MAX_ROUNDS = 1_000
"""Largest number of linear systems that are solved without a horizon. About ten are usual."""


class SoftOptimal(NamedTuple):
    """A soft-optimal policy."""

    values: Array  # [T + 1, S] soft values after t = 0 to T actions of a horizon T; [S] without a horizon
    policy: Array  # [T, S, A] with a horizon T; [S, A] without a horizon


def soft_optimal(model: TabularModel, reward: Array, *, temperature: float = 1.0) -> SoftOptimal:
    """Return the policy of largest expected discounted reward plus temperature times causal entropy.

    With a horizon this is soft value iteration, backwards from the last action. Without one, policies are evaluated and
    improved in turns, which is Newton's method for the soft Bellman equation.

    Args:
        model: The process. Its own `rewards` are not used.
        reward: [S] for each visit of a state, the last of an episode included; or [S, A] for each action.
        temperature: Weight τ of the entropy, > 0. The policy depends on the reward divided by it. Defaults to `1.0`.

    Raises:
        ConfigurationError: The reward has another shape or is not finite, or the temperature is out of range.
        ConvergenceError: Without a horizon, the soft Bellman equation could not be solved.
    """
    check_temperature(temperature)
    of_states, of_actions = reward_parts(model, reward)
    if model.horizon is None:
        return _without_horizon(model, of_states, of_actions, temperature)
    values = np.empty((model.horizon + 1, model.n_states))
    policy = np.empty((model.horizon, model.n_states, model.n_actions))
    values[-1] = of_states
    for t in reversed(range(model.horizon)):
        action_values = of_actions + model.gamma * model.expected(values[t + 1])  # [S, A]
        soft, policy[t] = soft_max(action_values, temperature)
        values[t] = of_states + np.where(model.terminal, 0.0, soft)
    return SoftOptimal(values, policy)


def soft_max(values: Array, temperature: float) -> tuple[Array, Array]:
    """Return τ log Σ exp(q / τ) over the last axis, and the probabilities in proportion to exp(q / τ).

    The largest value is subtracted before the exponential, so that values of any size are allowed.

    Args:
        values: [..., A], finite.
        temperature: τ > 0.

    Returns:
        [...] and [..., A].
    """
    largest = values.max(axis=-1, keepdims=True)
    weights = np.exp((values - largest) / temperature)
    sums = weights.sum(axis=-1, keepdims=True)
    return (largest + temperature * np.log(sums))[..., 0], weights / sums


def check_temperature(temperature: float) -> None:
    """Raise `ConfigurationError` unless the temperature is a finite number above 0."""
    if not 0.0 < temperature < np.inf:
        raise ConfigurationError(f"temperature must be a finite number above 0, got {temperature}.")


def _without_horizon(model: TabularModel, of_states: Array, of_actions: Array, temperature: float) -> SoftOptimal:
    values = np.zeros(model.n_states)
    for _ in range(MAX_ROUNDS):
        soft, policy = soft_max(of_actions + model.gamma * model.expected(values), temperature)
        change = of_states + np.where(model.terminal, 0.0, soft) - values
        error, size = np.abs(change).max(), np.abs(values).max()
        # The derivative of the right-hand side with respect to the values is the discounted transitions of the policy.
        values = values + Chain(model, policy).solve(change)
        if error <= SOLVED * max(1.0, size):
            # The step just made has squared the error.
            _, policy = soft_max(of_actions + model.gamma * model.expected(values), temperature)
            return SoftOptimal(values, policy)
    raise ConvergenceError(
        f"The soft Bellman equation could not be solved: its error is {error:.1e} after {MAX_ROUNDS} rounds, with "
        f"values up to {size:.1e}, a temperature of {temperature} and a gamma of {model.gamma}."
    )
