"""Observations in parts (`Dict`, `Tuple`) as one vector, and the description of goals in them.

The observation of a goal environment has the parts ``observation``, ``achieved_goal`` and ``desired_goal``, and the
environment computes the reward of any pair of goals: the interface of Gymnasium-Robotics' `GoalEnv`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments.transforms import batch_of_one, observation_transform, sizes_of_parts
from agents.errors import ConfigurationError
from agents.trust.loading import loaded

Array = np.ndarray[Any, Any]
Judge = Callable[[Array, Array], tuple[Array, Array]]

PARTS = ("achieved_goal", "desired_goal", "observation")


class FlatObservations(gym.ObservationWrapper[Array, Any, Any]):
    """Wrapper that concatenates the parts of a `Dict` or `Tuple` observation to the vector that the agent sees.

    Args:
        environment: Environment whose parts are vectors, numbers or flags; `Discrete` parts become one-hot. A single
            part may be an image.
        label: Name of the environment in errors.

    Attributes:
        places: Part of a `Dict` -> slice of the vector.

    Raises:
        ConfigurationError: A part is an image among other parts, or of a kind that no network accepts.
    """

    def __init__(self, environment: gym.Env[Any, Any], label: str) -> None:
        super().__init__(environment)
        parts = environment.observation_space
        self._transform = observation_transform(parts, label)
        self.places: dict[str, slice] = {}
        end = 0
        for name, size in (sizes_of_parts(parts, label) if isinstance(parts, spaces.Dict) else {}).items():
            self.places[name] = slice(end, end + size)
            end += size
        self.observation_space = self._transform.space

    def observation(self, observation: Any) -> Array:
        """Return {part: value} as [D] float32."""
        seen: Array = self._transform(batch_of_one(self.env.observation_space, observation))[0]
        return seen


class Goals(NamedTuple):
    """Description of an environment's goals for hindsight."""

    achieved: slice  # part of an observation that holds the achieved goal
    desired: slice  # part of an observation that holds the desired goal
    judge: Judge  # achieved [M, G], desired [M, G] -> rewards [M] float32, whether that ends the episode [M] bool
    computes_ends: bool = True  # whether `judge` computes ends; otherwise episodes end where they ended when recorded
    rules: bool = False  # whether `judge` replaces the environment's rewards, also for its own goals


def goals_of(environment: gym.Env[Any, Any], label: str, function: str | None = None) -> Goals:
    """Return the description of an environment's goals for hindsight.

    Args:
        environment: A goal environment, made by `EnvironmentSpec.make`.
        label: Name of the environment in errors.
        function: ``"module:function"``, or ``"file.py:function"``, that computes the rewards and ends of pairs of goals
            (`Judge`), also for the environment's own goals. Defaults to the environment's `compute_reward` and, if it
            exists, `compute_terminated`, with ``{}`` as `info`.

    Raises:
        ConfigurationError: The environment is not a goal environment or has no `compute_reward`, or the function does
            not exist or returns other types or shapes.
    """
    places = getattr(environment, "places", {})
    missing = [part for part in PARTS if part not in places]
    if missing:
        raise ConfigurationError(
            f"Hindsight needs a goal environment, whose observation has the parts {', '.join(PARTS)}; that of "
            f"{label!r} has no {', no '.join(missing)}."
        )
    achieved, desired = places["achieved_goal"], places["desired_goal"]
    sizes = [each.stop - each.start for each in (achieved, desired)]
    if sizes[0] != sizes[1]:
        raise ConfigurationError(
            f"Hindsight replaces desired goals by achieved ones, which must have the same size; in {label!r},"
            f" achieved_goal has {sizes[0]} numbers, desired_goal {sizes[1]}."
        )
    probe = np.zeros((3, sizes[0]), np.float32)
    if function is not None:
        return Goals(achieved, desired, _checked(_function(function), probe, function), rules=True)
    judge = _checked(_of_environment(environment, label), probe, label)
    return Goals(achieved, desired, judge, computes_ends=environment.has_wrapper_attr("compute_terminated"))


def _of_environment(environment: gym.Env[Any, Any], label: str) -> Judge:
    if not environment.has_wrapper_attr("compute_reward"):
        raise ConfigurationError(
            f"Environment {label!r} has no compute_reward(achieved_goal, desired_goal, info), so the rewards of "
            f"other goals cannot be computed: write one, or name a function of your own (goal_function)."
        )
    reward_of = environment.get_wrapper_attr("compute_reward")
    end_of = None
    if environment.has_wrapper_attr("compute_terminated"):
        end_of = environment.get_wrapper_attr("compute_terminated")

    def judge(achieved: Array, desired: Array) -> tuple[Array, Array]:
        rewards = _of_rows(reward_of, achieved, desired)
        ended = np.zeros(len(achieved)) if end_of is None else _of_rows(end_of, achieved, desired)
        return rewards, ended

    return judge


def _of_rows(function: Callable[[Any, Any, Any], Any], achieved: Array, desired: Array) -> Array:
    """Return the results of a function of single goals, which may accept batches, for each row, [M]."""
    try:
        given = np.asarray(function(achieved, desired, {}))
    except Exception:  # noqa: BLE001 - a function of single pairs may fail on a batch in any way
        given = np.zeros(())
    if given.shape == (len(achieved),):
        return given
    return np.array([function(*pair, {}) for pair in zip(achieved, desired, strict=True)])


def _function(path: str) -> Judge:
    try:
        found: Judge = loaded(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"goal_function {path!r} cannot be loaded: {error}") from error
    return found


def _checked(judge: Judge, probe: Array, name: str) -> Judge:
    """Return the same function with the data types of a buffer, after a trial call."""

    def checked(achieved: Array, desired: Array) -> tuple[Array, Array]:
        rewards, ended = judge(achieved, desired)
        return np.asarray(rewards, np.float32), np.asarray(ended, bool)

    try:
        shapes = [values.shape for values in checked(probe, probe)]
    except Exception as error:
        raise ConfigurationError(f"The rewards of goals of {name!r} cannot be computed: {error!r}.") from error
    if shapes != [(len(probe),)] * 2:
        raise ConfigurationError(
            f"The function for rewards of goals of {name!r} must return rewards [M] and ends [M] for goals [M, G]; for "
            f"M = {len(probe)} it returned shapes {shapes[0]} and {shapes[1]}."
        )
    return checked
