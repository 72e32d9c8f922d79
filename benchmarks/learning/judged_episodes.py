"""Greedy episodes that are the same for agents of every library; needs Gymnasium and NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]

JUDGE_SEED, SEARCH_SEED = 1_000_000, 2_000_000
"""Seeds of the first episode of long runs and of searches; training uses neither."""


def judged_returns(env: str, act: Callable[[Array], Array], n_episodes: int, first_seed: int = JUDGE_SEED) -> Array:
    """Return the returns of episodes with the seeds `first_seed`, `first_seed + 1`, ...

    Args:
        env: Id of the environment, `module:ID` if a module registers it.
        act: Observations, [N, ...] -> actions of the environment, [N, ...].
        n_episodes: Number of episodes; all are played beside each other.
        first_seed: Seed of the first one.

    Returns:
        [n_episodes] float64.
    """
    copies = [gym.make(env, disable_env_checker=True) for _ in range(n_episodes)]
    returns = np.zeros(n_episodes)
    observations = [copy.reset(seed=first_seed + k)[0] for k, copy in enumerate(copies)]
    playing = list(range(n_episodes))
    while playing:
        actions = act(np.stack([observations[k] for k in playing]))
        still = []
        for k, action in zip(playing, actions, strict=True):
            observations[k], reward, terminated, truncated, _ = copies[k].step(action)
            returns[k] += float(reward)
            if not (terminated or truncated):
                still.append(k)
        playing = still
    for copy in copies:
        copy.close()
    return returns
