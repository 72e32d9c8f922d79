"""Returns and advantages from rewards, as pure functions on arrays [T, N] in time order."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def discounted_returns(rewards: Array, ended: Array, last_values: Array, gamma: float) -> Array:
    """Return sums of discounted rewards until the end of the episode, or bootstrapped from `last_values`.

    Args:
        rewards: [T, N].
        ended: [T, N] bool: the episode ended with that step.
        last_values: [N] value of the state after the last step (0 where unknown).
        gamma: Discount.

    Returns:
        [T, N] float32.
    """
    result = np.zeros(rewards.shape, np.float32)
    following = np.asarray(last_values, np.float32)
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * np.where(ended[t], 0, following)
        result[t] = following
    return result


def generalized_advantages(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    *,
    gamma: float | Array,
    gae_lambda: float | Array,
) -> Array:
    """Return generalised advantage estimates (Schulman et al. 2015, arXiv 1506.02438).

    A termination ends both the bootstrap and the sum; a truncation ends the sum only, and its step still
    bootstraps from the value of the final observation.

    Args:
        rewards: [T, N].
        values: [T, N] values of the observations.
        next_values: [T, N] values of the true successors (final observations where an episode ended).
        terminated: [T, N] bool.
        truncated: [T, N] bool.
        gamma: Discount, 0 to 1; one number, or [N].
        gae_lambda: 0 gives one-step advantages, 1 Monte-Carlo ones; one number, or [N].

    Returns:
        [T, N] float32.
    """
    deltas = rewards + gamma * np.where(terminated, 0, next_values) - values  # [T, N]
    going = np.asarray(gamma * gae_lambda, np.float32) * ~(terminated | truncated)  # [T, N]
    advantages = np.zeros(rewards.shape, np.float32)
    following = np.zeros(rewards.shape[1:], np.float32)
    for t in reversed(range(len(rewards))):
        following = deltas[t] + going[t] * following
        advantages[t] = following
    return advantages
