"""n-step transitions, computed from stored single steps (Sutton 1988; Hessel et al. 2017, arXiv 1710.02298)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.buffers.buffer import Array


class NStep(NamedTuple):
    """Result of n steps from each start."""

    rewards: Array  # [M] float32: discounted sum of the rewards of these steps
    lengths: Array  # [M] int32: steps made, fewer than n where the episode ended
    last: Array  # [M] int64: time slot of the last step, whose successor the target bootstraps from


def n_step_returns(
    rewards: Array, ended: Array, slots: Array, environments: Array, *, n: int, gamma: float | Array
) -> NStep:
    """Sum up to `n` rewards from each start, stopping at the end of an episode.

    Args:
        rewards: [T, N] ring of rewards by time slot and environment.
        ended: [T, N] bool: the episode ended with that step, terminated or truncated.
        slots: [M] time slot of each start. `n - 1` further steps must be stored after it, unless its episode ends.
        environments: [M] environment of each start.
        n: Number of steps, >= 1.
        gamma: Discount; one number, or [M].
    """
    total = np.zeros(len(slots), np.float32)
    lengths = np.zeros(len(slots), np.int32)
    last = slots.copy()
    going = np.ones(len(slots), bool)
    for k in range(n):
        at = (slots + k) % len(rewards)
        total += np.where(going, np.asarray(gamma**k, np.float32) * rewards[at, environments], 0)
        lengths += going
        last = np.where(going, at, last)
        going &= ~ended[at, environments]
    return NStep(total, lengths, last)
