"""Episodes of numbered states: drawn from a tabular process, and counted as visits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.errors import ConfigurationError, check_at_least
from agents.functional.tabular import Array, TabularModel
from agents.functional.visits import checked_policy


class Episodes(NamedTuple):
    """Episodes of numbered states and actions."""

    states: list[Array]  # [T_i + 1] integers each, the last state included
    actions: list[Array]  # [T_i] integers each


def sample_episodes(
    model: TabularModel, policy: Array, n_episodes: int, rng: np.random.Generator, *, max_steps: int | None = None
) -> Episodes:
    """Draw episodes, which end in a terminal state or at the horizon.

    Args:
        model: The process.
        policy: [S, A] probabilities of actions; or [T, S, A], one for each of the T actions of the horizon.
        n_episodes: >= 1.
        rng: Source of random numbers.
        max_steps: Actions after which episodes without a horizon are cut, >= 1. Required without a horizon; not allowed
            with one.

    Raises:
        ConfigurationError: The policy has another shape, or another argument is out of range or missing.
    """
    check_at_least(1, n_episodes=n_episodes, max_steps=max_steps)
    if (model.horizon is None) == (max_steps is None):
        raise ConfigurationError(
            f"max_steps is for models without a horizon, and required there; got {max_steps} for a horizon of "
            f"{model.horizon}."
        )
    n_steps = max_steps if model.horizon is None else model.horizon
    assert n_steps is not None
    policy = checked_policy(model, policy)
    states, actions = np.empty((n_steps + 1, n_episodes), int), np.empty((n_steps, n_episodes), int)
    states[0] = _drawn(np.broadcast_to(model.initial, (n_episodes, model.n_states)), rng)
    for t in range(n_steps):
        probabilities = policy if policy.ndim == 2 else policy[t]  # [S, A]
        actions[t] = _drawn(probabilities[states[t]], rng)
        states[t + 1] = _drawn(model.transitions[states[t], actions[t]], rng)
    ended = model.terminal[states]  # [T + 1, N]
    lengths = np.where(ended.any(axis=0), ended.argmax(axis=0), n_steps)
    columns = list(enumerate(lengths))
    return Episodes([states[: n + 1, i] for i, n in columns], [actions[:n, i] for i, n in columns])


def empirical_visits(model: TabularModel, states: Sequence[Array], actions: Sequence[Array] | None = None) -> Array:
    """Return the mean discounted visits in episodes of numbered states.

    With a horizon, episodes must be whole: those that end in no terminal state have as many actions as the horizon.
    Without one they may be cut anywhere; visits after the cut, which weigh `gamma ** length` and less, are missing
    then.

    Args:
        model: The process in which the episodes were recorded.
        states: For each episode [T_i + 1] integers: its states, the last included.
        actions: For each episode [T_i] integers: its actions. Defaults to None: unknown.

    Returns:
        [S] visits of states; with `actions`, [S, A] visits of actions. Both are arguments of `fit_reward`, with a
        penalty.

    Raises:
        ConfigurationError: There are no episodes, or the model cannot have produced them: a state or an action is out
            of range, an episode begins, continues or ends where it cannot. The message names the episode and the
            states.
    """
    if not len(states):
        raise ConfigurationError("There are no episodes to count.")
    if actions is not None and len(actions) != len(states):
        raise ConfigurationError(f"There are {len(states)} episodes of states, but {len(actions)} of actions.")
    shape = (model.n_states,) if actions is None else (model.n_states, model.n_actions)
    counts = np.zeros(shape)
    possible = model.transitions.max(axis=1) > 0.0  # [S, S]
    for number in range(len(states)):
        visited = _checked_numbers(states[number], model.n_states, "states", number)
        if not visited.size:
            raise ConfigurationError(f"Episode {number} has no states.")
        _check_beginning_and_end(model, visited, number)
        discounts = model.gamma ** np.arange(len(visited))
        if actions is None:
            _check_steps(possible[visited[:-1], visited[1:]], visited, None, number)
            np.add.at(counts, visited, discounts)
            continue
        taken = _checked_numbers(actions[number], model.n_actions, "actions", number)
        if len(taken) != len(visited) - 1:
            raise ConfigurationError(
                f"Episode {number} has {len(visited)} states and {len(taken)} actions; it must have one state more "
                "than actions, its last."
            )
        _check_steps(model.transitions[visited[:-1], taken, visited[1:]] > 0.0, visited, taken, number)
        np.add.at(counts, (visited[:-1], taken), discounts[:-1])
    return counts / len(states)


def _drawn(probabilities: Array, rng: np.random.Generator) -> Array:
    """Return one number for each row of probabilities [N, K]."""
    sums = probabilities.cumsum(axis=1)
    result: Array = (sums / sums[:, -1:] <= rng.random((len(sums), 1))).sum(axis=1)
    return result


def _checked_numbers(numbers: Array, size: int, name: str, episode: int) -> Array:
    numbers = np.asarray(numbers)
    if numbers.size == 0:
        return np.zeros(0, int)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ConfigurationError(
            f"The {name} of episode {episode} must be a vector of integers, got {numbers.dtype} {list(numbers.shape)}."
        )
    wrong = (numbers < 0) | (numbers >= size)
    if wrong.any():
        raise ConfigurationError(
            f"The {name} of episode {episode} must be 0 to {size - 1}, got {numbers[wrong][0]} at position "
            f"{wrong.argmax()}."
        )
    return numbers


def _check_beginning_and_end(model: TabularModel, visited: Array, number: int) -> None:
    if not model.initial[visited[0]] > 0.0:
        raise ConfigurationError(
            f"Episode {number} begins in state {visited[0]}, where no episode of the model begins."
        )
    if model.terminal[visited[:-1]].any():
        at = model.terminal[visited].argmax()
        raise ConfigurationError(
            f"Episode {number} continues at position {at} after state {visited[at]}, which is terminal."
        )
    n_steps = len(visited) - 1
    if model.horizon is None:
        return
    if n_steps > model.horizon:
        raise ConfigurationError(f"Episode {number} has {n_steps} actions, above the horizon of {model.horizon}.")
    if n_steps < model.horizon and not model.terminal[visited[-1]]:
        raise ConfigurationError(
            f"Episode {number} ends after {n_steps} actions in state {visited[-1]}, which is not terminal; the horizon "
            f"is {model.horizon}."
        )


def _check_steps(possible: Array, visited: Array, taken: Array | None, number: int) -> None:
    if not possible.all():
        t = int(possible.argmin())
        by = "any action" if taken is None else f"action {taken[t]}"
        raise ConfigurationError(
            f"Episode {number} goes from state {visited[t]} to {visited[t + 1]} at position {t}; in the model {by} "
            "does so with probability 0."
        )
