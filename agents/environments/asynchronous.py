"""Copies in processes of their own, through Gymnasium's `AsyncVectorEnv` and shared memory.

For environments whose single step is slow (some milliseconds): below that, sending actions back and forth costs more
than it saves. Searches run in several processes anyway, so this is for single long runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from agents.environments.copies import Array, Copies, Stepped, as_error


class AsyncCopies(Copies):
    """Steps any environment, each copy in a process of its own.

    Args:
        make: Makes one environment; it is pickled.
        n: How many, >= 1.
    """

    kind = "async"

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], n: int) -> None:
        self.n = n
        self._vector = AsyncVectorEnv([_Guarded(make)] * n, autoreset_mode=AutoresetMode.SAME_STEP)
        self._kept = np.arange(n)
        self._actions: Array | None = None
        self._waiting = False  # for copies that did not answer yet
        self.single_observation_space = self._vector.single_observation_space
        self.single_action_space = self._vector.single_action_space

    def reset(self, seeds: Sequence[int]) -> Array:
        everywhere: list[int | None] = [0] * self._vector.num_envs
        for position, seed in zip(self._kept, seeds, strict=True):
            everywhere[position] = seed
        self._waiting = True
        observations, _ = self._vector.reset(seed=everywhere)
        self._waiting = False
        return np.asarray(observations[self._kept])

    def step(self, actions: Array) -> Stepped:
        if self._actions is None:
            self._actions = np.zeros((self._vector.num_envs, *actions.shape[1:]), actions.dtype)
        self._actions[self._kept] = actions  # copies that left are stepped on, and nobody looks at them
        self._waiting = True
        observations, rewards, terminated, truncated, infos = self._vector.step(self._actions)
        self._waiting = False
        kept = self._kept
        terminated, truncated = terminated[kept], truncated[kept]
        finals: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        for i in np.flatnonzero(terminated | truncated):
            error = infos["final_info"].get(_ERROR, {})
            if len(error) and error[kept[i]] is not None:
                errors[int(i)] = error[kept[i]]
                terminated[i] = truncated[i] = False
            else:
                finals[int(i)] = infos["final_obs"][kept[i]]
        return Stepped(observations[kept], rewards[kept], terminated, truncated, finals, errors)

    def keep(self, positions: Sequence[int]) -> None:
        self._kept = self._kept[list(positions)]
        self.n = len(self._kept)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*while waiting for a pending call")
            self._vector.close(terminate=self._waiting)  # who did not answer will not answer now


_ERROR = "error of the environment"


class _Guarded:
    """Makes environments whose errors come back as information: a worker that raises would end all copies."""

    def __init__(self, make: Callable[[], gym.Env[Any, Any]]) -> None:
        self.make = make

    def __call__(self) -> gym.Env[Any, Any]:
        return _Guard(self.make())


class _Guard(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._dead = False

    def _nothing(self) -> Any:
        space: Any = self.observation_space
        return np.zeros(space.shape, space.dtype)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        return (self._nothing(), {}) if self._dead else self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._dead:
            return self._nothing(), 0.0, False, False, {}
        try:
            return self.env.step(action)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign environment may raise anything
            self._dead = True
            return self._nothing(), 0.0, True, False, {_ERROR: as_error(error)}
