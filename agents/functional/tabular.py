"""Decision processes small enough to be written down as arrays, in float64.

Everything about a policy of such a process is computed exactly (`visits`, `soft_optimal`, `causal_entropy`), so that
learned policies, values and rewards can be tested against it. An episode begins in a state drawn from `initial`, and
ends in a terminal state or after `horizon` actions. Its last state is visited like the others; no action is taken
there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]

ROUNDING = 1e-8
"""Largest error of a sum of probabilities."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TabularModel:
    """A decision process with numbered states and actions. Its arrays are copies and cannot be written to.

    Args:
        transitions: [S, A, S] probabilities of the next state. Terminal states absorb: their rows are replaced by those
            that lead back to the same state.
        initial: [S] probabilities of the first state.
        terminal: [S] bool: an episode that enters the state ends there.
        rewards: [S, A] expected reward of an action; replaced by 0 in terminal states. Defaults to None: unknown.
        horizon: Number of actions after which an episode ends, >= 1. Defaults to None: no such end; `gamma` must be
            below 1.
        gamma: Discount, above 0 and at most 1. Defaults to `1.0`.

    Raises:
        ConfigurationError: Shapes do not fit, probabilities are negative or do not sum to 1 (the state and the action
            are named), or another argument is out of range.
    """

    transitions: Array
    initial: Array
    terminal: Array
    rewards: Array | None = None
    horizon: int | None = None
    gamma: float = 1.0

    def __post_init__(self) -> None:
        transitions = np.array(self.transitions, np.float64)
        if transitions.ndim != 3 or transitions.shape[0] != transitions.shape[2] or 0 in transitions.shape:
            raise ConfigurationError(f"transitions must have the shape [S, A, S], got {list(transitions.shape)}.")
        n_states, n_actions, _ = transitions.shape
        terminal = np.array(self.terminal)
        _check_shape("terminal", terminal, (n_states,))
        if terminal.dtype != bool:
            raise ConfigurationError(f"terminal must be an array of bool, got {terminal.dtype}.")
        transitions[terminal] = np.eye(n_states)[terminal, None]
        check_probabilities("transitions", transitions)
        initial = np.array(self.initial, np.float64)
        _check_shape("initial", initial, (n_states,))
        check_probabilities("initial", initial)
        _check_end(self.horizon, self.gamma)
        self._keep("transitions", transitions)
        self._keep("initial", initial)
        self._keep("terminal", terminal)
        if self.rewards is not None:
            rewards = np.array(self.rewards, np.float64)
            _check_shape("rewards", rewards, (n_states, n_actions))
            rewards[terminal] = 0.0
            check_finite("rewards", rewards)
            self._keep("rewards", rewards)

    def _keep(self, name: str, array: Array) -> None:
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.transitions.shape[0])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.transitions.shape[1])

    @property
    def longest(self) -> float:
        """The discounted number of states of an episode that no terminal state ends."""
        if self.horizon is None:
            return 1.0 / (1.0 - self.gamma)
        return float(np.sum(self.gamma ** np.arange(self.horizon + 1)))

    @functools.cached_property
    def _rows(self) -> Any:
        """[S * A, S] transitions, sparse."""
        return sparse.csr_array(self.transitions.reshape(-1, self.n_states))

    @functools.cached_property
    def _columns(self) -> Any:
        """[S, S * A] transitions that do not begin in a terminal state, by the state that they lead to, sparse."""
        alive = self.transitions * ~self.terminal[:, None, None]
        return sparse.csr_array(alive.reshape(-1, self.n_states).T)

    def expected(self, values: Array) -> Array:
        """Return the expected value of the next state.

        Args:
            values: [..., S].

        Returns:
            [..., S, A].
        """
        result: Array = (self._rows @ values.T).T  # [..., S * A]
        return result.reshape(*values.shape[:-1], self.n_states, self.n_actions)

    def reached(self, actions: Array) -> Array:
        """Return the visits of next states, [S], after visits of actions [S, A]; none follow in terminal states."""
        result: Array = self._columns @ actions.ravel()
        return result

    def under(self, policy: Array) -> Array:
        """Return the transitions [S, S] under a policy [S, A], 0 from terminal states on."""
        result: Array = (policy[:, None, :] @ self.transitions)[:, 0]  # [S, S]
        result[self.terminal] = 0.0
        return result

    def reachable(self) -> Array:
        """Return which states an episode can visit, [S] bool."""
        links = self.transitions.max(axis=1) > 0.0  # [S, S]
        found = self.initial > 0.0
        for _ in range(self.n_states if self.horizon is None else min(self.horizon, self.n_states)):
            found = found | links[found].any(axis=0)
        return found


def reward_parts(model: TabularModel, reward: Array) -> tuple[Array, Array]:
    """Return a reward as one of states [S] and one of actions [S, A], which is 0 in terminal states.

    Args:
        model: The process.
        reward: [S] for each visit of a state, the last of an episode included; or [S, A] for each action.

    Raises:
        ConfigurationError: The reward has another shape, or is not finite.
    """
    reward = of_states_or_actions("A reward", reward, model)
    if reward.ndim == 1:
        return reward, np.zeros((model.n_states, model.n_actions))
    return np.zeros(model.n_states), np.where(model.terminal[:, None], 0.0, reward)


def of_states_or_actions(name: str, array: Array, model: TabularModel) -> Array:
    """Return an array [S] of states or [S, A] of actions as float64.

    Raises:
        ConfigurationError: It has another shape, or is not finite.
    """
    array = np.asarray(array, np.float64)
    sizes = (model.n_states, model.n_actions)
    if array.shape not in (sizes, sizes[:1]):
        raise ConfigurationError(
            f"{name} must have the shape [S] = [{sizes[0]}] or [S, A] = {list(sizes)}, got {list(array.shape)}."
        )
    check_finite(name, array)
    return array


def check_finite(name: str, array: Array) -> None:
    """Raise `ConfigurationError` if a number is NaN or infinite."""
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ConfigurationError(f"{name} must be finite, got {array[wrong][0]} at {_place(wrong)}.")


def check_probabilities(name: str, array: Array) -> None:
    """Raise `ConfigurationError` for the first distribution, along the last axis, that is none."""
    sums = array.sum(axis=-1)
    wrong = ~(array >= 0.0).all(axis=-1) | ~(np.abs(sums - 1.0) <= ROUNDING)  # true of NaN
    if wrong.any():
        row, where = (array[wrong][0], f"{name}{_place(wrong)}") if array.ndim > 1 else (array, name)
        reason = f"sum to {row.sum():.9g}" if (row >= 0.0).all() else f"contain {row[~(row >= 0.0)][0]:.9g}"
        raise ConfigurationError(f"Probabilities must be >= 0 and sum to 1; those of {where} {reason}.")


def _place(wrong: Array) -> str:
    return str([int(i) for i in np.argwhere(wrong)[0]])


def _check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ConfigurationError(f"{name} must have the shape {list(shape)}, got {list(array.shape)}.")


def _check_end(horizon: int | None, gamma: float) -> None:
    if not 0.0 < gamma <= 1.0:
        raise ConfigurationError(f"gamma must be above 0 and at most 1, got {gamma}.")
    if horizon is None:
        if gamma == 1.0:
            raise ConfigurationError("Without a horizon, visits may be infinite: give a horizon, or a gamma below 1.")
    elif not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ConfigurationError(f"horizon must be an integer >= 1 or None, got {horizon!r}.")
