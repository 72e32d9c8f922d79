"""Rewards up to potential shaping (Ng, Harada and Russell 1999), for comparisons of learned rewards with true ones."""

from __future__ import annotations

import numpy as np

from agents.errors import ConfigurationError
from agents.functional.tabular import Array, TabularModel, reward_parts


def without_shaping(model: TabularModel, reward: Array, weights: Array | None = None) -> Array:
    """Return what is left of a reward when the potential shaping nearest to it is subtracted.

    Shaping adds γ φ(s') − φ(s) to the reward of a step, for a potential φ of states that is 0 in terminal ones.
    Without a horizon, it changes neither optimal nor soft-optimal policies; with one, it changes them near the horizon,
    where episodes end in any state. Two rewards that differ by shaping have the same result.

    Args:
        model: The process. Its own `rewards` are not used.
        reward: [S] for each visit of a state, counted for the action that leads there; or [S, A] for each action.
        weights: [S, A] >= 0, of the squares that the nearest shaping minimises, for example visits. Defaults to None: 1
            for all actions in states that can be reached and are not terminal.

    Returns:
        [S, A]; 0 where the weight is 0.

    Raises:
        ConfigurationError: A shape does not fit, or a reward is not finite.
    """
    of_states, of_actions = reward_parts(model, reward)
    rewards = of_actions + model.gamma * model.expected(of_states)  # [S, A]
    if weights is None:
        weights = np.repeat((model.reachable() & ~model.terminal)[:, None], model.n_actions, axis=1)
    weights = np.asarray(weights, np.float64)
    if weights.shape != rewards.shape or not (weights >= 0.0).all():
        raise ConfigurationError(
            f"weights must be >= 0 and have the shape [S, A] = {list(rewards.shape)}, got {list(weights.shape)}."
        )
    potentials = np.eye(model.n_states)[:, ~model.terminal]  # [S, K] one for each state that is not terminal
    shaping = model.gamma * np.moveaxis(model.expected(potentials.T), 0, -1) - potentials[:, None]  # [S, A, K]
    scale = np.sqrt(weights)
    best, *_ = np.linalg.lstsq(
        (shaping * scale[..., None]).reshape(-1, shaping.shape[-1]), (rewards * scale).ravel(), rcond=None
    )
    return np.where(weights > 0.0, rewards - shaping @ best, 0.0)
