"""What several copies of one environment are to the rest: stepped together, whatever they are made of.

All kinds keep one convention, so that an agent cannot tell them apart: every copy has a seed of its own, a copy
whose episode ends begins the next one in the same step, and a copy that raises does not disturb the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]


class Stepped(NamedTuple):
    """What one step of all copies gave, as the environment gives it."""

    observations: Array  # [n, ...] first ones of the next episode where one ended
    rewards: Array  # [n] float64
    terminated: Array  # [n] bool
    truncated: Array  # [n] bool
    finals: dict[int, Any]  # copy -> last observation of the episode that ended
    errors: dict[int, Exception]  # copy -> what it raised; it is dead from then on


class Copies(ABC):
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
    def keep(self, positions: Sequence[int]) -> None:
        """Goes on with these copies only, in this order."""

    @abstractmethod
    def close(self) -> None:
        """Closes every copy."""

    def get_state(self) -> Any:
        """Everything that the copies are in the middle of, or None where that cannot be copied."""
        return None

    def set_state(self, state: Any) -> None:
        """Goes on where `get_state` was called."""
        raise NotImplementedError(f"{type(self).__name__} gives no state")


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
