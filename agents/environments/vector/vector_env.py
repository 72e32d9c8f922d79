"""What several copies of one environment are to the rest: stepped together, whatever they are made of.

All kinds keep one convention, so that an agent cannot tell them apart: every copy has a seed of its own, a copy
whose episode ends begins the next one in the same step, and a copy that raises does not disturb the others.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import numpy as np

from agents.errors import ConfigurationError, ObservationError, portable

Array = np.ndarray[Any, Any]


class Stepped(NamedTuple):
    """What one step of all copies gave, as the environment gives it."""

    observations: Array  # [n, ...] first ones of the next episode where one ended
    rewards: Array  # [n] float64
    terminated: Array  # [n] bool
    truncated: Array  # [n] bool
    finals: dict[int, Any]  # copy -> last observation of the episode that ended
    errors: dict[int, Exception]  # copy -> what it raised; it is dead from then on
    infos: list[dict[str, Any] | None] | None = None  # what each told beside the step; None if not wanted


class Called(NamedTuple):
    """What a copy gave when one of its methods was called, or what it raised."""

    result: Any = None
    error: Exception | None = None


class VectorEnv(ABC):
    """Copies of one environment."""

    kind: str
    """How they are stepped: a name of `EnvironmentSpec.vectorization`, other than ``"auto"``."""

    n: int
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> Array:
        """Begins all episodes anew, each copy with its own seed; gives the first observations [n, ...]."""

    @abstractmethod
    def step(self, actions: Array) -> Stepped:
        """Steps every copy once; actions are [n, ...] of the environment's own space."""

    @abstractmethod
    def select(self, positions: Sequence[int]) -> None:
        """Goes on with these copies only, in this order."""

    @abstractmethod
    def close(self) -> None:
        """Closes every copy."""

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        """Calls a method of some copies, between two steps; gives copy -> what came of it, for those that are alive.

        Raises:
            ConfigurationError: There are no single environments that could be called.
        """
        raise ConfigurationError(
            f"Methods of the environment cannot be called where all copies are stepped as one (vectorization "
            f"{self.kind!r}): use vectorization='sync'."
        )

    def get_state(self) -> Any:
        """Everything that the copies are in the middle of, or None where that cannot be copied."""
        return None

    def set_state(self, state: Any) -> None:
        """Goes on where `get_state` was called."""
        raise NotImplementedError(f"{type(self).__name__} gives no state")


def check_shape(observation: Any, shape: tuple[int, ...]) -> None:
    """Raises `ObservationError` for an observation of another shape: written into an array, it may be repeated."""
    given = getattr(observation, "shape", None)
    if given is None:
        given = () if isinstance(observation, int | float) else np.shape(observation)
    if given != shape:
        raise ObservationError(f"an observation of shape {given}, where its observation_space declares {shape}")


def called(environment: gym.Env[Any, Any], method: str, arguments: Sequence[Any]) -> Called:
    """Calls a method of an environment, through its wrappers."""
    try:
        found = environment.get_wrapper_attr(method) if environment.has_wrapper_attr(method) else None
        if not callable(found):
            name = type(environment.unwrapped).__name__
            return Called(error=ConfigurationError(f"The environment {name} has no method {method!r}."))
        return Called(found(*arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign environment may raise anything
        return Called(error=as_error(error))


def answer_of(answer: Called) -> bytes:
    """What a method gave or raised, for another process."""
    if answer.error is not None:
        answer = Called(error=portable(answer.error))
    try:
        return bytes(cloudpickle.dumps(answer))
    except Exception as error:  # noqa: BLE001 - whatever pickling something foreign raises
        told = f"What the environment gave cannot be sent to another process: {error}"
        return bytes(cloudpickle.dumps(Called(error=ConfigurationError(told))))


def copied_info(info: Any) -> dict[str, Any]:
    """What an environment told, as it is now: it may go on to write into the same objects.

    Raises:
        ConfigurationError: It cannot be copied.
    """
    try:
        return copy.deepcopy(dict(info))
    except Exception as error:
        raise ConfigurationError(
            f"The info that the environment gave with a step cannot be copied ({error}): leave out what cannot be."
        ) from error


def info_as_bytes(info: Any) -> bytes:
    """What an environment told beside a step, for another process.

    Raises:
        ConfigurationError: It cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(dict(info)))
    except Exception as error:
        raise ConfigurationError(
            f"The info that the environment gave with a step cannot be sent to another process ({error}): leave out "
            f"what cannot be pickled."
        ) from error


def as_bytes(state: Any) -> bytes | None:
    """A state for another process; None for none, and where it cannot be pickled."""
    try:
        return None if state is None else bytes(cloudpickle.dumps(state))
    except Exception:  # noqa: BLE001 - a foreign environment may fail to be pickled in any way
        return None


def as_error(raised: BaseException) -> Exception:
    """What a copy raised; one that tries to end the whole program is a failure like others."""
    if isinstance(raised, Exception):
        return raised
    return RuntimeError(f"the environment called sys.exit({raised.args[0] if raised.args else ''!r})")
