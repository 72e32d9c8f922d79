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
    visited = _joined(states, model.n_states, "states")
    if not visited.lengths.all():
        raise ConfigurationError(f"Episode {visited.lengths.argmin()} has no states.")
    _check_beginnings_and_ends(model, visited)
    before = np.delete(visited.numbers, visited.ends - 1)
    after = np.delete(visited.numbers, visited.ends - visited.lengths)
    discounts = model.gamma**visited.times
    if actions is None:
        _check_steps(visited, model.transitions.max(axis=1)[before, after] > 0.0, None)
        return np.bincount(visited.numbers, discounts, model.n_states) / len(states)
    taken = _joined(actions, model.n_actions, "actions")
    if len(actions) != len(states) or (taken.lengths != visited.lengths - 1).any():
        raise ConfigurationError(_lengths_differ(visited.lengths, taken.lengths))
    _check_steps(visited, model.transitions[before, taken.numbers, after] > 0.0, taken)
    places = before * model.n_actions + taken.numbers
    weights = model.gamma**taken.times
    counts = np.bincount(places, weights, model.n_states * model.n_actions)
    return counts.reshape(model.n_states, model.n_actions) / len(states)


def _drawn(probabilities: Array, rng: np.random.Generator) -> Array:
    """Return one number for each row of probabilities [N, K]."""
    sums = probabilities.cumsum(axis=1)
    result: Array = (sums / sums[:, -1:] <= rng.random((len(sums), 1))).sum(axis=1)
    return result


class _Joined(NamedTuple):
    """Numbers of several episodes, one after the other."""

    numbers: Array  # [N]
    lengths: Array  # [E]
    ends: Array  # [E] place after the last number of each episode
    episodes: Array  # [N] episode of each number
    times: Array  # [N] place of each number in its episode


def _joined(sequences: Sequence[Array], size: int, name: str) -> _Joined:
    """Join episodes of numbers from 0 to size - 1."""
    arrays = [np.asarray(numbers) for numbers in sequences]
    for episode, numbers in enumerate(arrays):
        if numbers.size and (numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer)):
            raise ConfigurationError(
                f"The {name} of episode {episode} must be a vector of integers, got {numbers.dtype} "
                f"{list(numbers.shape)}."
            )
    lengths = np.array([numbers.size for numbers in arrays], int)
    ends = lengths.cumsum()
    joined = np.concatenate([np.zeros(0, int), *(numbers.ravel().astype(int) for numbers in arrays)])
    episodes = np.repeat(np.arange(len(arrays)), lengths)
    times = np.arange(len(joined)) - np.repeat(ends - lengths, lengths)
    wrong = (joined < 0) | (joined >= size)
    if wrong.any():
        at = wrong.argmax()
        raise ConfigurationError(
            f"The {name} of episode {episodes[at]} must be 0 to {size - 1}, got {joined[at]} at position {times[at]}."
        )
    return _Joined(joined, lengths, ends, episodes, times)


def _check_beginnings_and_ends(model: TabularModel, visited: _Joined) -> None:
    first, last = visited.numbers[visited.ends - visited.lengths], visited.numbers[visited.ends - 1]
    wrong = model.initial[first] == 0.0
    if wrong.any():
        episode = wrong.argmax()
        raise ConfigurationError(
            f"Episode {episode} begins in state {first[episode]}, where no episode of the model begins."
        )
    continued = model.terminal[visited.numbers]
    continued[visited.ends - 1] = False
    if continued.any():
        at = continued.argmax()
        raise ConfigurationError(
            f"Episode {visited.episodes[at]} continues at position {visited.times[at]} after state "
            f"{visited.numbers[at]}, which is terminal."
        )
    if model.horizon is None:
        return
    n_steps = visited.lengths - 1
    wrong = n_steps > model.horizon
    if wrong.any():
        episode = wrong.argmax()
        raise ConfigurationError(
            f"Episode {episode} has {n_steps[episode]} actions, above the horizon of {model.horizon}."
        )
    wrong = (n_steps < model.horizon) & ~model.terminal[last]
    if wrong.any():
        episode = wrong.argmax()
        raise ConfigurationError(
            f"Episode {episode} ends after {n_steps[episode]} actions in state {last[episode]}, which is not terminal; "
            f"the horizon is {model.horizon}."
        )


def _lengths_differ(n_states: Array, n_actions: Array) -> str:
    if len(n_states) != len(n_actions):
        return f"There are {len(n_states)} episodes of states, but {len(n_actions)} of actions."
    episode = (n_actions != n_states - 1).argmax()
    return (
        f"Episode {episode} has {n_states[episode]} states and {n_actions[episode]} actions; it must have one state "
        "more than actions, its last."
    )


def _check_steps(visited: _Joined, possible: Array, taken: _Joined | None) -> None:
    """Raise the error for the first step that is not possible, [N - E]."""
    if possible.all():
        return
    step = int(possible.argmin())
    at = step + np.delete(visited.episodes, visited.ends - 1)[step]  # episodes have one state more than steps
    by = "any action" if taken is None else f"action {taken.numbers[step]}"
    raise ConfigurationError(
        f"Episode {visited.episodes[at]} goes from state {visited.numbers[at]} to {visited.numbers[at + 1]} at "
        f"position {visited.times[at]}; in the model {by} does so with probability 0."
    )
