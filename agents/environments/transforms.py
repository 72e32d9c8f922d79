"""Spaces as an agent sees them, and the functions between an environment's values and the agent's.

Observations become `Box`: vectors (numbered states one-hot, parts concatenated) or images [height, width, channels].
Actions are `Discrete` or `MultiDiscrete` from 0, or a `Box` within [-1, 1] that is scaled to the environment's bounds.
Actions are converted in both directions, observations in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments.images import as_image
from agents.environments.joint_space import JointSpace
from agents.errors import ConfigurationError, ObservationError

Array = np.ndarray[Any, Any]


class Transform(NamedTuple):
    """A space as the agent sees it, and the function between the environment's values and the agent's, for batches."""

    space: Any
    function: Callable[[Any], Array]

    def __call__(self, values: Any) -> Array:
        return self.function(values)


# Observations -------------------------------------------------------------------------------------------------


def observation_transform(space: gym.Space[Any], label: str) -> Transform:
    """Return the transform of an observation space; raise `ConfigurationError` for unsupported kinds."""
    if isinstance(space, spaces.Box):
        image = None if isinstance(space, JointSpace) else as_image(space)
        if image is not None:
            return Transform(*image)
        with np.errstate(over="ignore"):  # the largest float64 overflows to infinity, as intended
            wide: spaces.Box = spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
        wide = space if isinstance(space, JointSpace) else wide
        return Transform(wide, lambda values: np.asarray(values, np.float32))
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        one_hot, count = np.eye(n, dtype=np.float32), np.uint64(n)

        def function(values: Any) -> Array:
            numbers = np.asarray(values, np.int64) - start  # [N]
            _check_numbered(space, values, numbers, count)
            return one_hot[numbers]

        return Transform(spaces.Box(0.0, 1.0, (n,), np.float32), function)
    if isinstance(space, spaces.MultiDiscrete):
        return _several_one_hot(space)
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return Transform(
            spaces.Box(0.0, 1.0, (size,), np.float32),
            lambda values: np.asarray(values, np.float32).reshape(-1, size),
        )
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _concatenation(space, label)
    raise ConfigurationError(_refused_observations(space, label))


def _several_one_hot(space: spaces.MultiDiscrete) -> Transform:
    """Return the transform to concatenated one-hot vectors of the numbers of a `MultiDiscrete`."""
    counts = space.nvec.ravel().astype(np.int64)
    starts, firsts = space.start.ravel().astype(np.int64), np.cumsum(counts) - counts
    total = int(counts.sum())

    def function(values: Any) -> Array:
        numbers = np.asarray(values, np.int64).reshape(-1, len(counts)) - starts  # [N, D]
        _check_numbered(space, values, numbers, counts.astype(np.uint64))
        flags = np.zeros((len(numbers), total), np.float32)
        np.put_along_axis(flags, numbers + firsts, 1.0, axis=1)
        return flags

    return Transform(spaces.Box(0.0, 1.0, (total,), np.float32), function)


def _check_numbered(space: gym.Space[Any], values: Any, numbers: Array, counts: Any) -> None:
    """Raise `ObservationError` for a number outside its space, which would set the flag of another number."""
    outside = numbers.astype(np.uint64) >= counts  # unsigned, negative numbers become huge
    if outside.any():
        first = int(np.argwhere(outside)[0, 0])
        raise ObservationError(f"the observation {np.asarray(values)[first]}, which is not in {space_text(space)}")


def parts_of(space: gym.Space[Any]) -> dict[Any, gym.Space[Any]]:
    """Return the parts of a `Dict` by name, or of a `Tuple` by position."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    assert isinstance(space, spaces.Tuple)
    return dict(enumerate(space.spaces))


def _concatenation(space: spaces.Dict | spaces.Tuple[Any], label: str) -> Transform:
    parts = {name: observation_transform(part, f"{label}[{name!r}]") for name, part in parts_of(space).items()}
    if len(parts) == 1:
        (only,) = parts
        return Transform(parts[only].space, lambda values: parts[only](values[only]))
    for name, part in parts.items():
        if part.space.dtype == np.uint8:
            raise ConfigurationError(
                f"Environment {label!r} has an image, {name!r}, among other parts in its observation; a network "
                f"takes an image alone or vectors: keep the image or the others with "
                f"gymnasium.wrappers.FilterObservation (--wrapper 'FilterObservation:filter_keys=[...]')."
            )

    def function(values: Any) -> Array:
        columns = [part(values[name]) for name, part in parts.items()]
        return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)

    low, high = (np.concatenate([getattr(part.space, side).ravel() for part in parts.values()]) for side in _SIDES)
    return Transform(spaces.Box(low, high, dtype=np.float32), function)


_SIDES = ("low", "high")


def sizes_of_parts(space: spaces.Dict, label: str) -> dict[str, int]:
    """Return the number of entries of each part of a `Dict` in the agent's observation, in order."""
    made = {name: observation_transform(part, label).space for name, part in space.spaces.items()}
    return {name: int(np.prod(part.shape)) for name, part in made.items()}


def batch_of_one(space: gym.Space[Any], value: Any) -> Any:
    """Return a single observation as a batch.

    Raises:
        ObservationError: The observation lacks a part.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        try:
            own = {name: value[name] for name in parts_of(space)}
        except (KeyError, IndexError, TypeError):
            expected = ", ".join(map(repr, parts_of(space)))
            given = ", ".join(map(repr, value)) if isinstance(value, Mapping) else type(value).__name__
            message = f"an observation of {given}, where its observation_space declares the parts {expected}"
            raise ObservationError(message) from None
        return {name: batch_of_one(part, own[name]) for name, part in parts_of(space).items()}
    return np.asarray(value)[None]


def _refused_observations(space: gym.Space[Any], label: str) -> str:
    message = (
        f"Environment {label!r} has the observation space {space_text(space)}; there are networks for Box (vectors, "
        f"images as uint8), Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these. Wrap the environment, "
        f"for example with gymnasium.wrappers."
    )
    if space.is_np_flattenable:
        return f"{message}FlattenObservation (--wrapper FlattenObservation)."
    return f"{message}TransformObservation, whose function converts the observation to a vector."


# Actions ------------------------------------------------------------------------------------------------------

ROUNDING = 1e-4
"""Share of a range by which a recorded action may exceed its bounds, as actions rounded to float32 do."""


class ActionTransform(NamedTuple):
    """An action space as the agent sees it, and the functions from its actions to the environment's, and back."""

    space: Any
    function: Callable[[Array], Array]
    inverse: Callable[[Array], tuple[Array, Array]]  # also returns which actions are in the environment's space, [N]

    def __call__(self, actions: Array) -> Array:
        return self.function(actions)


def action_transform(space: gym.Space[Any], label: str) -> ActionTransform:
    """Return the agent's action space, the conversion to the environment's actions, and its inverse."""
    if isinstance(space, spaces.Discrete):
        start, n = int(space.start), int(space.n)
        return ActionTransform(
            spaces.Discrete(n),
            lambda actions: np.asarray(actions, np.int64) + start,
            lambda actions: _numbered(actions, np.int64(start), np.int64(n)),
        )
    if isinstance(space, spaces.MultiDiscrete):
        first, counts = space.start.astype(np.int64), space.nvec.astype(np.int64)
        return _several_numbers(space, first, counts)
    if isinstance(space, spaces.MultiBinary):
        return _several_numbers(space, np.zeros(space.shape, np.int64), np.full(space.shape, 2))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _stretched(space) if space.is_bounded() else _free(space)
    raise ConfigurationError(
        f"Environment {label!r} has the action space {space_text(space)}; agents take Discrete, MultiDiscrete, "
        f"MultiBinary and Box (floats). Wrap the environment with gymnasium.wrappers.TransformAction, whose function "
        f"converts one of these to the environment's actions."
    )


def _several_numbers(space: gym.Space[Any], first: Array, counts: Array) -> ActionTransform:
    """Return the transform of a `MultiDiscrete` or `MultiBinary`: the agent's numbers are one row and begin at 0."""
    assert space.shape is not None
    shape, n = space.shape, int(counts.size)

    def inverse(actions: Array) -> tuple[Array, Array]:
        numbers, valid = _numbered(actions, first, counts)
        return numbers.reshape(-1, n), valid

    return ActionTransform(
        spaces.MultiDiscrete(counts.ravel()),
        lambda actions: (actions.reshape(-1, *shape) + first).astype(space.dtype),
        inverse,
    )


def _stretched(space: spaces.Box) -> ActionTransform:
    """Return the transform of a bounded `Box`: [-1, 1] spans the bounds."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    width = np.where(high > low, high - low, 1.0)

    def stretch(actions: Array) -> Array:
        share = (np.clip(actions, -1.0, 1.0).reshape(-1, *space.shape) + 1.0) / 2.0  # [N, D] within [0, 1]
        return np.clip(low + share * (high - low), low, high).astype(space.dtype)  # 0.1 + 0.2 is more than 0.3

    def shrink(actions: Array) -> tuple[Array, Array]:
        share = (np.asarray(actions, np.float64) - low) / width  # [N, D] within [0, 1]
        valid = _rows((share >= -ROUNDING) & (share <= (high > low) + ROUNDING))
        return np.clip(2.0 * share - 1.0, -1.0, 1.0).astype(np.float32), valid

    return ActionTransform(spaces.Box(-1.0, 1.0, space.shape, np.float32), stretch, shrink)


def _free(space: spaces.Box) -> ActionTransform:
    """Return the transform of a `Box` with an infinite bound: actions are the same, clipped to the finite bounds."""

    def inverse(actions: Array) -> tuple[Array, Array]:
        inside = np.clip(actions, space.low, space.high)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite actions are not valid
            near = np.abs(actions - inside) <= ROUNDING * (1.0 + np.abs(inside))
            taken = inside.astype(np.float32)
        return taken, _rows(near & np.isfinite(taken))

    return ActionTransform(
        spaces.Box(-np.inf, np.inf, space.shape, np.float32),
        lambda actions: np.clip(actions.reshape(-1, *space.shape), space.low, space.high).astype(space.dtype),
        inverse,
    )


def _numbered(actions: Array, first: Any, counts: Any) -> tuple[Array, Array]:
    """Return numbers from 0, [N, ...], and which rows have only whole numbers below their counts, [N]."""
    with np.errstate(invalid="ignore"):  # NaN becomes some number, which differs from NaN
        numbers = np.asarray(actions).astype(np.int64)
    whole = numbers == actions
    numbers = numbers - first
    return numbers, _rows(whole & (numbers >= 0) & (numbers < counts))


def _rows(flags: Array) -> Array:
    """Return which rows have no False, [N]."""
    return np.asarray(flags.reshape(len(flags), -1).all(axis=1))


def space_text(space: gym.Space[Any]) -> str:
    """Return a description of a space on one line."""
    return " ".join(str(space).split())


def takers_of(space: gym.Space[Any], *, several_agents: bool = False) -> str:
    """Return the names of the algorithms that support an environment's action space.

    Args:
        space: The action space.
        several_agents: Whether it is the joint space of several agents.
    """
    takers = ["a2c", "ppo", "trpo"]
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    if several_agents:
        takers += ["mappo"]
        takers += ["maddpg"] if bounded or isinstance(space, spaces.MultiDiscrete) else []
        takers += ["qmix", "vdn"] if isinstance(space, spaces.MultiDiscrete) else []
    elif isinstance(space, spaces.Discrete):
        takers += ["acer", "dqn", "rainbow"]
    if bounded:
        takers += ["ddpg", "sac", "td3"]
    *others, last = sorted(takers)
    return f"{', '.join(others)} and {last}"


def check_same_spaces(label: str, environments: Any, agent: Any) -> None:
    """Raise `ConfigurationError` where an environment's spaces differ from those of an agent.

    Args:
        label: The environment's name.
        environments: Object with the `observation_space` and `action_space` that agents see.
        agent: Object with the spaces that the agent was made for; their bounds may differ.
    """
    made = (environments.observation_space, environments.action_space)
    expected = (agent.observation_space, agent.action_space)
    if any(_kind(ours) != _kind(theirs) for ours, theirs in zip(made, expected, strict=True)):
        raise ConfigurationError(
            f"The agent was made for observations {expected[0]} and actions {expected[1]}; {label!r} has {made[0]} and "
            f"{made[1]}."
        )


def _kind(space: Any) -> tuple[Any, ...]:
    """Return the properties of a space that a network depends on."""
    choices: Iterable[int] = getattr(space, "nvec", ())
    return type(space), space.shape, space.dtype, getattr(space, "n", None), tuple(choices)
