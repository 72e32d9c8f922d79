"""Vector environment of EnvPool (Weng et al. 2022, arXiv 2206.10558): environments in C++, where it is installed.

EnvPool's games follow Gymnasium's rules but draw other random numbers: runs in EnvPool and in Gymnasium differ, but
have the same distribution (`tests/agents/environments/test_environment_kinds.py` compares them).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agents.environments.vector.vector_env import Array, Stepped, VectorEnv


class PoolCopies(VectorEnv):
    """Vector environment of EnvPool.

    Args:
        id: Id of the environment, the same as Gymnasium's.
        n: Number of copies, >= 1.
    """

    kind = "envpool"

    def __init__(self, id: str, n: int) -> None:
        self.id = id
        self.n = n
        self._pool = _make(id, n, [0] * n)
        self._ids = np.arange(n, dtype=np.int32)
        self.single_observation_space, self.single_action_space = _spaces(self._pool)

    @staticmethod
    def can_make(id: Any, kwargs: Mapping[str, Any]) -> bool:
        """Return whether EnvPool is installed and supports this Gymnasium id, with the same spaces and time limit."""
        return isinstance(id, str) and not kwargs and _is_installed() and _is_same(id)

    def reset(self, seeds: Sequence[int]) -> Array:
        self._pool.close()
        self._pool = _make(self.id, self.n, list(seeds))  # EnvPool takes seeds only in its constructor
        self._ids = np.arange(self.n, dtype=np.int32)
        with _ignore_warnings():
            observations, _ = self._pool.reset()
        return np.asarray(observations)

    def step(self, actions: Array) -> Stepped:
        observations, rewards, terminated, truncated, _ = self._pool.step(actions, self._ids)
        finals = {}
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            finals = {int(i): observations[i].copy() for i in ended}
            first, _ = self._pool.reset(self._ids[ended])
            observations = np.array(observations)
            observations[ended] = first
        return Stepped(observations, np.asarray(rewards, np.float64), terminated, truncated, finals, {})

    def select(self, positions: Sequence[int]) -> None:
        self._ids = self._ids[list(positions)]
        self.n = len(self._ids)

    def close(self) -> None:
        self._pool.close()


@contextlib.contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Silence Gymnasium's warnings about EnvPool's metadata and types of bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _make(id: str, n: int, seeds: list[int]) -> Any:
    import envpool

    with _ignore_warnings():
        return envpool.make(id, env_type="gymnasium", num_envs=n, env_seed=seeds, num_threads=1)


def _spaces(pool: Any) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Return the observation and action space of one copy."""
    with _ignore_warnings():
        return pool.observation_space, pool.action_space


@functools.cache
def _is_installed() -> bool:
    try:
        importlib.metadata.version("envpool")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@functools.cache
def _is_same(id: str) -> bool:
    import envpool

    known = gym.registry.get(id)
    if known is None or id not in envpool.list_all_envs() or not str(known.entry_point).startswith("gymnasium.envs."):
        return False
    ours = gym.make(id)
    pool = _make(id, 1, [0])
    try:
        same_spaces = all(
            type(a) is type(b) and a.shape == b.shape and getattr(a, "n", None) == getattr(b, "n", None)
            for a, b in zip((ours.observation_space, ours.action_space), _spaces(pool), strict=True)
        )
        return same_spaces and pool.spec.config.max_episode_steps == known.max_episode_steps
    finally:
        ours.close()
        pool.close()
