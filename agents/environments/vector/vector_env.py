"""Base class for vector environments: several copies of one environment that are stepped together.

All kinds follow one convention: every copy has its own seed, a copy whose episode ends starts the next one in the same
step, and a copy that raises does not affect the other copies.
"""

from __future__ import annotations

import copy
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import numpy as np

from agents.errors import ConfigurationError, ObservationError, portable

Array = np.ndarray[Any, Any]


class Stepped(NamedTuple):
    """Result of one step of all copies, in the environment's own spaces."""

    observations: Array  # [n, ...] first observation of the next episode where one ended
    rewards: Array  # [n] float64
    terminated: Array  # [n] bool
    truncated: Array  # [n] bool
    finals: dict[int, Any]  # copy -> last observation of an ended episode
    errors: dict[int, Exception]  # copy -> error that it raised; the copy is not stepped any more
    infos: list[dict[str, Any] | None] | None = None  # info of each copy; None if not wanted


class Called(NamedTuple):
    """Result of a method of a copy, or the error that it raised."""

    result: Any = None
    error: Exception | None = None


class VectorEnv(ABC):
    """Base class for vector environments."""

    kind: str
    """Name of the kind in `EnvironmentSpec.vectorization`, other than ``"auto"``."""

    n: int
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> Array:
        """Start new episodes in all copies, each with its own seed; return the first observations [n, ...]."""

    @abstractmethod
    def step(self, actions: Array) -> Stepped:
        """Step every copy once; actions are [n, ...] of the environment's own space."""

    @abstractmethod
    def select(self, positions: Sequence[int]) -> None:
        """Keep only these copies, in this order."""

    @abstractmethod
    def close(self) -> None:
        """Close every copy."""

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        """Call a method of some copies between two steps; return copy -> result, for copies that have not failed.

        Raises:
            ConfigurationError: There are no single environments to call.
        """
        raise ConfigurationError(
            f"Methods of the environment cannot be called where all copies are stepped as one (vectorization "
            f"{self.kind!r}): use vectorization='sync'."
        )

    def get_state(self) -> Any:
        """Return the state of the copies, or None where they cannot be copied."""
        return None

    def set_state(self, state: Any) -> None:
        """Continue from a state of `get_state`."""
        raise NotImplementedError(f"{type(self).__name__} has no state to save")


def check_shape(observation: Any, shape: tuple[int, ...]) -> None:
    """Raise `ObservationError` for an observation of another shape, which NumPy might broadcast silently."""
    given = getattr(observation, "shape", None)
    if given is None:
        given = () if isinstance(observation, int | float) else np.shape(observation)
    if given != shape:
        raise ObservationError(f"an observation of shape {given}, where its observation_space declares {shape}")


def first_observation(started: Any, shape: tuple[int, ...]) -> Any:
    """Return the observation that `reset` returned.

    Raises:
        ObservationError: It returned no observation and info, or an observation of another shape.
    """
    if not (isinstance(started, tuple) and len(started) == 2):
        raise ObservationError("no info at a reset: reset must return the observation and an info, a dictionary")
    check_shape(started[0], shape)
    return started[0]


NUMBERS = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32})
"""Usual types of rewards, which need no further check."""


_FIVE = "which must return five: observation, reward, terminated, truncated, info"


def checked_step(stepped: Any) -> tuple[Any, float, bool, bool, Any]:
    """Return the five results of `step`, the reward and the flags as numbers, which may be arrays with one entry.

    Raises:
        ObservationError: It returned something else.
    """
    if not (isinstance(stepped, tuple | list) and len(stepped) == 5):
        given = f"{len(stepped)} results" if isinstance(stepped, tuple | list) else "one result"
        raise ObservationError(f"{given} from step, {_FIVE}")
    reward = stepped[1]
    if not hasattr(reward, "__float__") or np.size(reward) != 1:
        raise ObservationError(f"the reward {reward!r}, which is not a number")
    observation, _, terminated, truncated, info = stepped
    return observation, float(np.asarray(reward).item()), bool(terminated), bool(truncated), info


def called(environment: gym.Env[Any, Any], method: str, arguments: Sequence[Any]) -> Called:
    """Call a method of an environment through its wrappers."""
    try:
        found = environment.get_wrapper_attr(method) if environment.has_wrapper_attr(method) else None
        if not callable(found):
            name = type(environment.unwrapped).__name__
            return Called(error=ConfigurationError(f"The environment {name} has no method {method!r}."))
        return Called(found(*arguments))
    except BaseException as error:  # noqa: BLE001 - a foreign environment may raise anything
        return Called(error=as_error(error))


def encode_result(answer: Called) -> bytes:
    """Return the pickled result or error of a method, for another process."""
    if answer.error is not None:
        answer = Called(error=portable(answer.error))
    try:
        return bytes(cloudpickle.dumps(answer))
    except Exception as error:  # noqa: BLE001 - pickling a foreign object may raise anything
        message = f"The result of the environment's method cannot be sent to another process: {error}"
        return bytes(cloudpickle.dumps(Called(error=ConfigurationError(message))))


def copied_info(info: Any) -> dict[str, Any]:
    """Return a copy of an environment's info: the environment may reuse the same objects.

    Raises:
        ConfigurationError: The info cannot be copied.
    """
    try:
        return copy.deepcopy(dict(info))
    except Exception as error:
        raise ConfigurationError(
            f"The info of the environment's step cannot be copied ({error}): remove the parts that cannot be copied."
        ) from error


def info_as_bytes(info: Any) -> bytes:
    """Return the pickled info of a step, for another process.

    Raises:
        ConfigurationError: The info cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(dict(info)))
    except Exception as error:
        raise ConfigurationError(
            f"The info of the environment's step cannot be sent to another process ({error}): remove the parts "
            f"that cannot be pickled."
        ) from error


def as_bytes(state: Any) -> bytes | None:
    """Return a pickled state for another process; None for None, and where the state cannot be pickled."""
    try:
        return None if state is None else bytes(cloudpickle.dumps(state))
    except Exception:  # noqa: BLE001 - a foreign environment may fail to be pickled in any way
        return None


def as_step_error(raised: BaseException) -> Exception:
    """Return an error of `step`: wrappers of Gymnasium take its results apart before they can be checked here."""
    if isinstance(raised, ValueError) and re.match(r"(not enough|too many) values to unpack \(expected 5", str(raised)):
        got = re.search(r"got (\d+)", str(raised))
        given = f"{got[1]} results" if got else "more results"
        return ObservationError(f"{given} from step, {_FIVE}")
    return as_error(raised)


def as_error(raised: BaseException) -> Exception:
    """Return an error that a copy raised; `SystemExit` becomes an ordinary error.

    So does `KeyboardInterrupt` in a process that ignores Ctrl-C. Elsewhere it, and whatever else is raised, goes on.
    """
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, SystemExit):
        return RuntimeError(f"the environment called sys.exit({raised.args[0] if raised.args else ''!r})")
    if type(raised) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return RuntimeError("the environment raised KeyboardInterrupt")
    raise raised
