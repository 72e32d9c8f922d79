"""Checks that a dataset was recorded in the environment that an agent learns in."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.demonstrations.episodes import RecordedDataset
from agents.environments.interface import Interface
from agents.environments.joint_space import JointSpace
from agents.environments.places import found_environment
from agents.environments.spec import EnvironmentSpec
from agents.environments.transforms import parts_of, space_text
from agents.errors import ConfigurationError

log = logging.getLogger(__name__)

INFINITE = 1e30
"""Bounds beyond this are none: environments write the largest float32 or infinity."""

_NOT_COMPARED = ("render_mode",)


def check_single_agent(observations: gym.Space[Any], label: str) -> None:
    """Check that an environment has one agent.

    Args:
        observations: Its observation space.
        label: Its name.

    Raises:
        ConfigurationError: It has several.
    """
    if isinstance(observations, JointSpace):
        agents = ", ".join(observations.agents)
        raise ConfigurationError(f"Demonstrations are those of a single agent, and {label!r} has several: {agents}.")


def check_same_spaces(dataset: RecordedDataset, interface: Interface, first: RecordedDataset) -> None:
    """Check that a dataset has the spaces of an environment.

    Numbers may have another precision (float64 where the environment has float32).

    Args:
        dataset: The dataset.
        interface: Spaces of the environment.
        first: The first of several datasets, for the message.

    Raises:
        ConfigurationError: One of the spaces is another one.
    """
    wanted = {"observations": interface.observations, "actions": interface.actions}
    found = {"observations": dataset.observations, "actions": dataset.actions}
    for what, space in wanted.items():
        if same_space(found[what], space):
            continue
        if dataset is not first:  # the first one has the environment's spaces
            raise ConfigurationError(
                f"The datasets have different {what}: {space_text(space)} in {first.id!r}, {space_text(found[what])} "
                f"in {dataset.id!r}. Give datasets of one environment with the same wrappers."
            )
        raise ConfigurationError(
            f"The dataset {dataset.id!r} has {what} in {space_text(found[what])}; {interface.label!r} has "
            f"{space_text(space)}. Give a dataset that was recorded there with the same wrappers."
        )


def same_space(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Return whether two spaces have the same values, up to the precision of their numbers."""
    if isinstance(one, spaces.Dict | spaces.Tuple):
        if type(one) is not type(other):
            return False
        parts, others = parts_of(one), parts_of(other)
        return parts.keys() == others.keys() and all(same_space(part, others[name]) for name, part in parts.items())
    if isinstance(one, spaces.Box) and isinstance(other, spaces.Box):
        kinds = {"image" if space.dtype == np.uint8 else space.dtype.kind for space in (one, other)}
        return one.shape == other.shape and len(kinds) == 1 and _same_bounds(one, other)
    if isinstance(one, spaces.Discrete) and isinstance(other, spaces.Discrete):
        return (one.n, one.start) == (other.n, other.start)
    if isinstance(one, spaces.MultiDiscrete) and isinstance(other, spaces.MultiDiscrete):
        return np.array_equal(one.nvec, other.nvec) and np.array_equal(one.start, other.start)
    return bool(one == other)


def check_recorded_in(dataset: RecordedDataset, environment: EnvironmentSpec) -> None:
    """Check that a dataset was recorded in an environment, where both are named by an id of Gymnasium.

    Raises:
        ConfigurationError: It was recorded in another one.
    """
    found = found_environment(environment.id) if isinstance(environment.id, str) else environment.id
    recorded = dataset.environment.get("id")
    if not isinstance(found, str) or recorded is None:
        return
    known = gym.spec(found)
    if recorded != known.id:
        raise ConfigurationError(
            f"The dataset {dataset.id!r} was recorded in {recorded!r}, and the agent learns in {known.id!r}: record "
            f"demonstrations there, or learn in {recorded!r}."
        )
    given = {"max_episode_steps": known.max_episode_steps, **known.kwargs, **environment.kwargs}
    if environment.max_episode_steps is not None:
        given["max_episode_steps"] = environment.max_episode_steps
    limit = dataset.environment.get("max_episode_steps", given["max_episode_steps"])
    there = {**dataset.environment["kwargs"], "max_episode_steps": limit}
    differing = [name for name in sorted({*given, *there}) if _text(given, name) != _text(there, name)]
    if differing:
        then, now = (", ".join(_text(each, name) for name in differing) for each in (there, given))
        _log_once(dataset.id, known.id, then, now)


@functools.cache  # once in a process
def _log_once(*texts: str) -> None:
    log.warning("The dataset %r was recorded in %s with %s; the agent learns there with %s.", *texts)


def _text(arguments: Mapping[str, Any], name: str) -> str:
    """Return an argument of an environment as text, without those that change no episode."""
    if name in _NOT_COMPARED:
        return ""
    return f"{name}={json.dumps(arguments[name], default=repr)}" if name in arguments else f"no {name}"


def _same_bounds(one: spaces.Box, other: spaces.Box) -> bool:
    return all(np.allclose(_bound(one, side), _bound(other, side), rtol=1e-4) for side in ("low", "high"))


def _bound(space: spaces.Box, side: str) -> Any:
    return np.clip(np.asarray(getattr(space, side), np.float64), -INFINITE, INFINITE)
