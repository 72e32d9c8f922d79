"""How often a policy visits the states and actions of a tabular process, and what rewards it gets: exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from agents.errors import ConfigurationError
from agents.functional.tabular import Array, TabularModel, check_probabilities, reward_parts


class Visits(NamedTuple):
    """Expected discounted numbers of visits in an episode; what is visited after t actions counts `gamma ** t`."""

    states: Array  # [S] the last state of the episode included
    actions: Array  # [S, A] 0 in terminal states


def visits_of(model: TabularModel, policy: Array) -> Visits:
    """Return the expected visits of a policy.

    Args:
        model: The process.
        policy: [S, A] probabilities of actions; or [T, S, A], one for each of the T actions of the horizon.

    Raises:
        ConfigurationError: The policy has another shape, or its probabilities do not sum to 1.
    """
    chain = Chain(model, checked_policy(model, policy))
    occupancy = chain.occupancy()
    return Visits(chain.states_of(occupancy), chain.actions_of(occupancy))


def policy_values(model: TabularModel, policy: Array, reward: Array) -> Array:
    """Return the expected discounted sum of rewards from each state on.

    Args:
        model: The process.
        policy: [S, A] probabilities of actions; or [T, S, A], one for each of the T actions of the horizon.
        reward: [S] for each visit of a state, the last of an episode included; or [S, A] for each action.

    Returns:
        [T + 1, S] after t = 0 to T actions of the horizon T; [S] without a horizon.

    Raises:
        ConfigurationError: Policy or reward have another shape, probabilities do not sum to 1, or a reward is not
            finite.
    """
    return Chain(model, checked_policy(model, policy)).values(*reward_parts(model, reward))


def checked_policy(model: TabularModel, policy: Array) -> Array:
    """Return a policy in float64: [T, S, A] with a horizon T, else [S, A].

    Raises:
        ConfigurationError: The policy has another shape, or its probabilities do not sum to 1.
    """
    policy = np.asarray(policy, np.float64)
    stationary = (model.n_states, model.n_actions)
    whole = stationary if model.horizon is None else (model.horizon, *stationary)
    if policy.shape not in (whole, stationary):
        allowed = f"[S, A] = {list(stationary)}"
        if model.horizon is not None:
            allowed += f" or [T, S, A] = {list(whole)}"
        raise ConfigurationError(f"A policy must have the shape {allowed}, got {list(policy.shape)}.")
    check_probabilities("policy", policy)
    return np.broadcast_to(policy, whole)


class Chain:
    """The Markov chain that a policy makes of a process.

    *Occupancy* is the discounted probability of each state at each time, [T + 1, S] with a horizon T; without one, its
    sum over time, [S].

    Args:
        model: The process.
        policy: [T, S, A] with a horizon T, else [S, A]; not checked.
    """

    def __init__(self, model: TabularModel, policy: Array) -> None:
        self.model, self.policy = model, policy
        if model.horizon is None:
            self._factors = linalg.lu_factor(np.eye(model.n_states) - model.gamma * model.under(policy))

    def solve(self, gained: Array) -> Array:
        """Return v = gained + γ P v, [S], for a chain without a horizon: the values of what is gained in each state."""
        result: Array = linalg.lu_solve(self._factors, gained)
        return result

    def values(self, of_states: Array, of_actions: Array) -> Array:
        """Return the values of a reward in two parts, [S] and [S, A]: [T + 1, S], or [S] without a horizon."""
        model = self.model
        if model.horizon is None:
            return self.solve(of_states + (self.policy * of_actions).sum(axis=-1))
        result = np.empty((model.horizon + 1, model.n_states))
        result[-1] = of_states
        for t in reversed(range(model.horizon)):
            following = of_actions + model.gamma * model.expected(result[t + 1])  # [S, A]
            result[t] = of_states + np.where(model.terminal, 0.0, (self.policy[t] * following).sum(axis=-1))
        return result

    def occupancy(self, additions: Array | None = None) -> Array:
        """Return the occupancy of episodes.

        Args:
            additions: Occupancy of actions, [T, S, A] or [S, A], that is the only source of that of states, in place of
                the beginnings of episodes: so derivatives of the occupancy spread. Defaults to None.
        """
        model = self.model
        start = model.initial if additions is None else np.zeros(model.n_states)
        if model.horizon is None:
            if additions is not None:
                start = model.gamma * model.reached(additions)
            solved: Array = linalg.lu_solve(self._factors, start, trans=1)
            return solved
        result = np.empty((model.horizon + 1, model.n_states))
        result[0] = start
        for t in range(model.horizon):
            actions = result[t, :, None] * self.policy[t]  # [S, A]
            if additions is not None:
                actions += additions[t]
            result[t + 1] = model.gamma * model.reached(actions)
        return result

    def states_of(self, occupancy: Array) -> Array:
        """Return the visits of states [S] in an occupancy."""
        result: Array = occupancy if self.model.horizon is None else occupancy.sum(axis=0)
        return result

    def actions_of(self, occupancy: Array, additions: Array | None = None) -> Array:
        """Return the visits of actions [S, A] in an occupancy, and in its `additions` where it has some."""
        acting = occupancy if self.model.horizon is None else occupancy[:-1]
        actions = acting[..., None] * self.policy  # [S, A] or [T, S, A]
        if additions is not None:
            actions += additions
        if self.model.horizon is not None:
            actions = actions.sum(axis=0)
        return np.where(self.model.terminal[:, None], 0.0, actions)
