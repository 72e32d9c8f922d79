"""Normalization of joint observations, of which agents may leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agents.environments.joint_space import JointSpace, JointView
from agents.updates.normalization import RunningNormalizer

Array = np.ndarray[Any, Any]


class JointNormalizer(RunningNormalizer):
    """Normalize the observations of each agent, and the global state, in joint observations.

    An agent that has left does not count in the statistics of its observations, and its zeros stay zeros. Agents of
    opponents count, which are not alive for the learner, but observed. Masks and rewards stay as they are.

    Args:
        space: The joint space.

    Attributes:
        count: Rows of each agent, and of the state, [A + 1].
    """

    def __init__(self, space: JointSpace) -> None:
        self._space = space
        sizes = [space.n_features] * space.n_agents + [space.state_size]
        super().__init__((sum(sizes),))
        self.count = np.zeros(len(sizes))
        self._parts = [RunningNormalizer((size,)) for size in sizes]
        self._ends = np.cumsum(sizes)

    def __call__(self, observations: Array) -> Array:
        """Normalize joint observations [..., W]; return float32 of the same shape."""
        end = self._ends[-1]
        normalized = np.concatenate([super().__call__(observations[..., :end]), observations[..., end:]], axis=-1)
        present = _present(self._space.view(observations))
        self._space.view(normalized).observations[:] *= present[..., None]  # writes go through
        return normalized

    def update(self, observations: Array) -> None:
        """Update the statistics with joint observations [M, W]."""
        view = self._space.view(observations)
        own = [view.observations[rows, i] for i, rows in enumerate(_present(view).T)]
        state = observations[:, self._space.ends[0] : self._space.ends[1]]  # none without a global state
        for part, rows in zip(self._parts, [*own, state], strict=True):
            part.update(rows)
        self.mean = np.concatenate([part.mean for part in self._parts])
        self.variance = np.concatenate([part.variance for part in self._parts])
        self.count = np.array([part.count for part in self._parts])

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; those of earlier versions have one count."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = np.array(np.broadcast_to(state["count"], len(self._parts)), np.float64)
        columns = (np.split(each, self._ends[:-1]) for each in (self.mean, self.variance))
        for part, mean, variance, count in zip(self._parts, *columns, self.count, strict=True):
            part.set_state({"mean": mean, "variance": variance, "count": count})


def _present(view: JointView) -> Array:
    """Return which agents are observed, [..., A]."""
    present: Array = (view.alive > 0.0) | view.observations.any(axis=-1)
    return present
