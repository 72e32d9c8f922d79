"""Vector environment of ordinary Gymnasium environments, stepped one after another in this process."""

from __future__ import annotations

import copy
import functools
import io
import logging
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle

from agents.environments.vector.vector_env import (
    NUMBERS,
    Array,
    Called,
    Stepped,
    VectorEnv,
    as_step_error,
    called,
    check_shape,
    checked_step,
    copied_info,
    first_observation,
)
from agents.processes.hanging import HungError, under_way

log = logging.getLogger(__name__)


class SyncCopies(VectorEnv):
    """Vector environment that steps any environment copy by copy.

    Args:
        make: Makes one environment.
        n: Number of copies, >= 1.
        infos: Whether to return the infos of each step.
    """

    kind = "sync"

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], n: int, *, infos: bool = False) -> None:
        self.n = n
        self._wants_infos = infos
        self._environments: list[gym.Env[Any, Any]] = []
        try:
            for _ in range(n):
                self._environments.append(make())
        except BaseException:
            self.close()
            raise
        self._dead = [False] * n
        self.single_observation_space = self._environments[0].observation_space
        self.single_action_space = self._environments[0].action_space
        self._shape = self.single_observation_space.shape or ()

    def reset(self, seeds: Sequence[int]) -> Array:
        observations, shape = self._empty(), self._shape
        for i, (environment, seed) in enumerate(zip(self._environments, seeds, strict=True)):
            under_way.begin("reset", i)
            observations[i] = first_observation(environment.reset(seed=seed), shape)
        return observations

    def step(self, actions: Array) -> Stepped:
        n, shape, wants_infos = self.n, self._shape, self._wants_infos
        observations, rewards = self._empty(), np.zeros(n, np.float64)
        terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
        finals: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        infos: list[dict[str, Any] | None] = [None] * n
        hung: set[int] = set()  # members with a hung copy: their other copies may hang as long
        for i, environment in enumerate(self._environments):
            if self._dead[i] or (hung and i // under_way.of_member in hung):
                continue
            under_way.begin("step", i)
            try:
                stepped: Any = environment.step(actions[i])
                if type(stepped) is not tuple or len(stepped) != 5 or type(stepped[1]) not in NUMBERS:
                    stepped = checked_step(stepped)
                observation, rewards[i], is_terminated, is_truncated, info = stepped
                if wants_infos:
                    infos[i] = copied_info(info)  # of the last step of an ended episode, not of the reset
                if getattr(observation, "shape", None) != shape:
                    check_shape(observation, shape)
                if is_terminated or is_truncated:
                    terminated[i], truncated[i] = bool(is_terminated), bool(is_truncated)
                    finals[i] = np.array(observation)  # a copy: the reset may write into the same array
                    under_way.begin("reset", i)
                    observation = first_observation(environment.reset(), shape)
                observations[i] = observation
            except BaseException as error:  # noqa: BLE001 - a foreign environment may raise anything
                errors[i] = as_step_error(error)
                if isinstance(error, HungError):
                    hung.add(i // under_way.of_member)
                self._dead[i] = True
                finals.pop(i, None)
                rewards[i], terminated[i], truncated[i] = 0.0, False, False
        wanted = infos if self._wants_infos else None
        return Stepped(observations, rewards, terminated, truncated, finals, errors, wanted)

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        return {i: called(self._environments[i], method, arguments) for i in copies if not self._dead[i]}

    def _empty(self) -> Array:
        space: Any = self.single_observation_space
        return np.zeros((self.n, *space.shape), space.dtype)

    def select(self, positions: Sequence[int]) -> None:
        kept = set(positions)
        for i, environment in enumerate(self._environments):
            if i not in kept:
                _close(environment)
        self._environments = [self._environments[i] for i in positions]
        self._dead = [self._dead[i] for i in positions]
        self.n = len(positions)

    def close(self) -> None:
        for environment in self._environments:
            _close(environment)

    def get_state(self) -> list[gym.Env[Any, Any]] | None:
        """Return copies of the environments; None for those that cannot be copied (Box2D's and MuJoCo's)."""
        if self._rebuilt_by_deepcopy:
            return None
        try:
            return [copy.deepcopy(environment) for environment in self._environments]
        except Exception:  # noqa: BLE001 - a foreign environment may fail to copy in any way
            return None

    @functools.cached_property
    def _rebuilt_by_deepcopy(self) -> bool:
        return any(map(_is_rebuilt_by_deepcopy, self._environments))

    def set_state(self, state: list[gym.Env[Any, Any]]) -> None:
        self.close()
        self._environments = [copy.deepcopy(environment) for environment in state]
        self.n = len(state)
        self._dead = [False] * self.n


def _is_rebuilt_by_deepcopy(environment: gym.Env[Any, Any]) -> bool:
    """Return whether `copy.deepcopy` re-creates any part from constructor arguments, as `EzPickle` does.

    Such a copy raises no error, but lacks the state of the episode.
    """
    try:
        _PartInspector(io.BytesIO()).dump(environment)
    except _RebuiltError:
        return True
    except Exception:  # noqa: BLE001 - an object that cannot be pickled may still be copied
        return _is_rebuilt(environment.unwrapped)
    return False


class _RebuiltError(Exception):
    pass


class _PartInspector(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that inspects every part of an object."""

    def reducer_override(self, obj: Any) -> Any:
        if _is_rebuilt(obj):
            raise _RebuiltError
        return super().reducer_override(obj)


def _is_rebuilt(obj: Any) -> bool:
    return isinstance(obj, EzPickle) and not hasattr(type(obj), "__deepcopy__")


def _close(environment: gym.Env[Any, Any]) -> None:
    """Close an environment; an error is logged, since it must hide neither an earlier one nor the other copies."""
    try:
        environment.close()
    except Exception as error:  # noqa: BLE001 - a foreign environment may raise anything
        log.warning("An environment could not be closed: %s: %s", type(error).__name__, error)
