"""Observations as inputs of reward networks, and rewards after the end of an episode.

The end of an episode. A reward that is always positive favours long episodes and one that is always negative short
ones, whatever the expert does (Kostrikov et al. 2019, arXiv 1809.02925). As there, an episode that terminates continues
for ever in an absorbing state, which has a reward too: the reward of a step that terminates includes those of the
absorbing state, discounted.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from agents.environments.transforms import Transform

Array = np.ndarray[Any, Any]

LEAST = 1e-4
"""The least `1 - gamma`, by which rewards of the absorbing state are divided."""


LEAST_STD = 1e-6
"""Standard deviation of an expert's observations below which they count as constant, and are not scaled."""


class ObservationScale(NamedTuple):
    """Mean and standard deviation of an expert's observations, by which those of reward networks are scaled."""

    mean: Array  # [F]
    std: Array  # [F], 1 where observations do not vary

    @classmethod
    def of(cls, observations: Array) -> Self:
        """Return the scale of observations [M, ...]."""
        rows = observations.reshape(len(observations), -1)
        mean = rows.mean(axis=0, dtype=np.float64)  # exact for millions of rows
        std = rows.std(axis=0, dtype=np.float64)
        return cls(mean.astype(np.float32), np.where(std > LEAST_STD, std, 1.0).astype(np.float32))

    @property
    def n_features(self) -> int:
        """Length of the features of an observation, F + 1."""
        return len(self.mean) + 1

    def features(self, observations: Array, absorbing: Array | None = None) -> Array:
        """Return observations [R, ...] as [R, F + 1]: scaled, then 0; of the absorbing state zeros, then 1."""
        rows = np.clip((observations.reshape(len(observations), -1) - self.mean) / self.std, -10.0, 10.0)
        last = np.zeros((len(rows), 1), np.float32)
        if absorbing is not None:
            rows = np.where(absorbing[:, None], 0.0, rows)
            last[:, 0] = absorbing
        return np.concatenate([rows, last], axis=1, dtype=np.float32)


def action_vectors(actions: Array, transform: Transform) -> Array:
    """Return actions [R, ...] as vectors [R, D], clipped to their bounds as environments clip them.

    A Gaussian policy draws beyond the bounds.

    Args:
        actions: As `Agent.act` returns them.
        transform: Of the action space; numbered actions become one-hot.
    """
    within = transform.space
    return np.clip(transform(actions), within.low, within.high).reshape(len(actions), -1)


def with_absorbing(rewards: Array, terminated: Array, absorbing: Any, gamma: Any) -> Array:
    """Return rewards [...], where steps that terminate also have the discounted rewards of the absorbing state.

    Args:
        rewards: [...] of the steps themselves.
        terminated: [...] bool, or 0 and 1.
        absorbing: Reward of a step of the absorbing state; it broadcasts against `rewards`, as `gamma` does.
        gamma: The discount.
    """
    discount = np.asarray(gamma, np.float32)
    after = discount / np.maximum(1.0 - discount, LEAST)
    return np.asarray(rewards + terminated * absorbing * after, np.float32)
