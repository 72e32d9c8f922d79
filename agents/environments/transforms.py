"""Spaces as an agent sees them, and the functions between an environment's values and the agent's.

Observations become `Box` (one-hot for discrete ones), actions `Discrete` or a `Box` within [-1, 1] that is stretched
to the environment's own bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


class Transform(NamedTuple):
    """A space as the agent sees it, and the function between the environment's values and the agent's."""

    space: Any
    function: Callable[[Any], Array]

    def __call__(self, values: Any) -> Array:
        return self.function(values)


def observation_transform(space: gym.Space[Any], label: str) -> Transform:
    """What an agent sees of a space; raises `ConfigurationError` for kinds that no network takes."""
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and len(space.shape) == 3:
            return Transform(space, np.asarray)
        with np.errstate(over="ignore"):  # the largest float64 becomes infinity, which is what it stands for
            wide = spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
        return Transform(wide, lambda values: np.asarray(values, np.float32))
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        one_hot = np.eye(n, dtype=np.float32)
        return Transform(
            spaces.Box(0.0, 1.0, (n,), np.float32), lambda values: one_hot[np.asarray(values, np.int64) - start]
        )
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return Transform(
            spaces.Box(0.0, 1.0, (size,), np.float32),
            lambda values: np.asarray(values, np.float32).reshape(-1, size),
        )
    raise ConfigurationError(
        f"Environment {label!r} has the observation space {space}; there are networks for Box (vectors, images as "
        f"uint8 [height, width, channels]), Discrete, MultiBinary and Dict of vectors. Wrap the environment, for "
        f"example with gymnasium.wrappers.FlattenObservation."
    )


def action_transform(space: gym.Space[Any], label: str) -> Transform:
    """The actions that an agent gives, and what the environment makes of them."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return Transform(spaces.Discrete(int(space.n)), lambda actions: np.asarray(actions, np.int64) + start)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            free = spaces.Box(-np.inf, np.inf, space.shape, np.float32)
            return Transform(free, lambda actions: np.clip(actions, space.low, space.high).astype(space.dtype))
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)

        def stretch(actions: Array) -> Array:
            share = (np.clip(actions, -1.0, 1.0) + 1.0) / 2.0  # [N, D] within [0, 1]
            return (low + share * (high - low)).astype(space.dtype)

        return Transform(spaces.Box(-1.0, 1.0, space.shape, np.float32), stretch)
    raise ConfigurationError(
        f"Environment {label!r} has the action space {space}; agents take Discrete and Box (floats). "
        f"Wrap the environment, for example with gymnasium.wrappers.FlattenAction or a TransformAction."
    )


def check_same_spaces(label: str, environments: Any, agent: Any) -> None:
    """Raises `ConfigurationError` where an environment's spaces are not those that an agent was made for.

    Args:
        label: The environment's name.
        environments: What has its `observation_space` and `action_space`, as agents see them.
        agent: Who has those that it was made for; their bounds may differ.
    """
    made = (environments.observation_space, environments.action_space)
    expected = (agent.observation_space, agent.action_space)
    if any(_kind(ours) != _kind(theirs) for ours, theirs in zip(made, expected, strict=True)):
        raise ConfigurationError(
            f"The agent was made for observations {expected[0]} and actions {expected[1]}; {label!r} has {made[0]} and "
            f"{made[1]}."
        )


def _kind(space: Any) -> tuple[Any, ...]:
    """What a network was made for."""
    return type(space), space.shape, space.dtype, getattr(space, "n", None)
