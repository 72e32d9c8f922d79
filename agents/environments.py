"""Gymnasium environments as a batch: made, seeded, checked, and with one convention at the end of an episode.

Agents see plain spaces: observations as `Box` (one-hot for discrete ones), actions as `Discrete` or as a `Box`
within [-1, 1] that is stretched to the environment's own bounds here. The successor of a step is always the true
next observation, also where an episode ended; where the next episode starts is told apart from it.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import ConfigurationError, NonFiniteError, unknown_name

Array = np.ndarray[Any, Any]


class Step(NamedTuple):
    """What one step of all N environments gave."""

    rewards: Array  # [N] float64, as the environments gave them
    terminated: Array  # [N] bool
    truncated: Array  # [N] bool
    successors: Array  # [N, ...] true next observations, final ones where an episode ended
    observations: Array  # [N, ...] where to act next: first observations of new episodes where one ended


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment that is not made yet; it can be sent to another process.

    Attributes:
        id: A Gymnasium id (``"CartPole-v1"``), or a function without arguments that makes an environment.
        kwargs: Arguments for the environment.
    """

    id: str | Callable[..., gym.Env[Any, Any]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: with its registration, which the script made that runs here only."""
        return {"id": self.id, "kwargs": self.kwargs, "registration": self._registration()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        object.__setattr__(self, "id", state["id"])
        object.__setattr__(self, "kwargs", state["kwargs"])
        registration = state["registration"]
        if registration is not None:
            gym.registry.setdefault(registration.id, registration)

    def _registration(self) -> Any:
        known = gym.registry.get(self.id.rpartition(":")[2]) if isinstance(self.id, str) else None
        if known is not None and isinstance(known.entry_point, str) and known.entry_point.startswith("__main__:"):
            maker: Any = gym.envs.registration.load_env_creator(known.entry_point)
            return replace(known, entry_point=maker)
        return known

    @classmethod
    def of(cls, value: Any, kwargs: Mapping[str, Any] | None = None) -> EnvironmentSpec:
        """Makes a spec from an id, a function that makes an environment, or a spec.

        Raises:
            ConfigurationError: The id is not registered (nearest ids are named), or `value` is something else.
        """
        if isinstance(value, EnvironmentSpec):
            return value if kwargs is None else cls(value.id, dict(kwargs))
        if isinstance(value, gym.Env):
            raise ConfigurationError(
                f"Give the environment's id or a function that makes it, not {value!r}: trials need copies of "
                f"their own."
            )
        if not isinstance(value, str) and not callable(value):
            raise ConfigurationError(f"An environment must be a Gymnasium id or a function, got {value!r}.")
        if isinstance(value, str):
            check_environment_id(value)
        return cls(value, dict(kwargs or {}))

    @property
    def label(self) -> str:
        """A short name for people."""
        return self.id if isinstance(self.id, str) else getattr(self.id, "__name__", repr(self.id))

    def make(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """One environment.

        Raises:
            ConfigurationError: It cannot be made; the cause is in the message.
        """
        arguments = {**self.kwargs, **kwargs}
        try:
            if isinstance(self.id, str):
                return gym.make(self.id, disable_env_checker=True, **arguments)
            made = self.id(**arguments)
        except Exception as error:
            raise ConfigurationError(
                f"Environment {self.label!r} cannot be made with {arguments!r}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, gym.Env):
            raise ConfigurationError(f"{self.label!r} must make a gymnasium.Env, it made {made!r}.")
        return made

    def spaces(self) -> tuple[spaces.Box, spaces.Discrete | spaces.Box]:
        """The observation and action space that an agent sees.

        Raises:
            ConfigurationError: One of them is of a kind that no network of ours takes.
        """
        environment = self.make()
        try:
            observation = _observation_transform(environment.observation_space, self.label).space
            action = _action_transform(environment.action_space, self.label).space
        finally:
            environment.close()
        return observation, action


def check_environment_id(id: str) -> None:
    """Raises `ConfigurationError` with the nearest ids when Gymnasium does not know this one."""
    module, colon, name = id.rpartition(":")
    if colon:  # "module:Environment-v0": the module registers it
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigurationError(f"Environment {id!r}: module {module!r} cannot be imported: {error}.") from error
    try:
        gym.spec(name)
    except gym.error.Error as error:
        known = {registered.id for registered in gym.registry.values()}
        stem = name.rpartition("-v")[0].lower()
        versions = sorted(other for other in known if stem and other.rpartition("-v")[0].lower() == stem)
        detail = f" Registered under that name: {', '.join(versions)}." if versions else ""
        unknown = unknown_name("environment", name, known)
        raise ConfigurationError(str(unknown).partition(" Known:")[0] + detail) from error


class Environments:
    """N copies of an environment that are stepped together in this process."""

    def __init__(self, spec: EnvironmentSpec, n_envs: int) -> None:
        """Makes the copies; `reset` must be called before `step`.

        Args:
            spec: What to make.
            n_envs: How many copies, >= 1.
        """
        if n_envs < 1:
            raise ConfigurationError(f"n_envs must be >= 1, got {n_envs}.")
        self.spec = spec
        self.n_envs = n_envs
        self._vector = SyncVectorEnv([spec.make] * n_envs, autoreset_mode=AutoresetMode.SAME_STEP)
        self._observe = _observation_transform(self._vector.single_observation_space, spec.label)
        self._act = _action_transform(self._vector.single_action_space, spec.label)
        self.observation_space = self._observe.space
        self.action_space = self._act.space

    def reset(self, seeds: Sequence[int]) -> Array:
        """Starts all episodes anew, each copy with its own seed; returns observations [N, ...]."""
        observations, _ = self._vector.reset(seed=list(seeds))
        return self._observe(observations)

    def step(self, actions: Array) -> Step:
        """Steps every copy once; a copy whose episode ends starts its next one in the same step.

        Args:
            actions: [N] integers, or [N, D] floats of which [-1, 1] spans the environment's bounds.

        Raises:
            NonFiniteError: An environment gave a NaN or infinite reward.
        """
        raw, rewards, terminated, truncated, infos = self._vector.step(self._act(actions))
        observations = self._observe(raw)
        if not np.isfinite(rewards).all():
            bad = int(np.flatnonzero(~np.isfinite(rewards))[0])
            raise NonFiniteError(f"Environment {self.spec.label!r} gave the reward {rewards[bad]} (copy {bad}).")
        successors = observations
        ended = terminated | truncated
        if ended.any():
            successors = observations.copy()
            for i in np.flatnonzero(ended):
                successors[i] = self._observe(np.asarray(infos["final_obs"][i])[None])[0]
        return Step(rewards, terminated, truncated, successors, observations)

    def close(self) -> None:
        """Closes every copy."""
        self._vector.close()

    def get_state(self) -> list[gym.Env[Any, Any]] | None:
        """Copies of the environments as they stand, or None where they cannot be copied (Box2D's and MuJoCo's)."""
        if any(_copies_afresh(environment) for environment in self._vector.envs):
            return None
        try:
            return [copy.deepcopy(environment) for environment in self._vector.envs]
        except Exception:  # noqa: BLE001 - a foreign environment may fail to copy in any way
            return None

    def set_state(self, environments: list[gym.Env[Any, Any]]) -> None:
        """Goes on from copies that `get_state` gave."""
        self._vector.envs = [copy.deepcopy(environment) for environment in environments]


def _copies_afresh(environment: gym.Env[Any, Any]) -> bool:
    """Whether `copy.deepcopy` makes a new environment from the constructor's arguments, as `EzPickle` does.

    Such a copy is made without complaint, but knows nothing of the episode.
    """
    layer = environment
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, EzPickle):
            return True
        layer = layer.env
    return isinstance(layer, EzPickle)


class _Transform(NamedTuple):
    """A space as the agent sees it, and the function between the environment's values and the agent's."""

    space: Any
    function: Callable[[Any], Array]

    def __call__(self, values: Any) -> Array:
        return self.function(values)


def _observation_transform(space: gym.Space[Any], label: str) -> _Transform:
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and len(space.shape) == 3:
            return _Transform(space, np.asarray)
        with np.errstate(over="ignore"):  # the largest float64 becomes infinity, which is what it stands for
            wide = spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
        return _Transform(wide, lambda values: np.asarray(values, np.float32))
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        one_hot = np.eye(n, dtype=np.float32)
        return _Transform(
            spaces.Box(0.0, 1.0, (n,), np.float32), lambda values: one_hot[np.asarray(values, np.int64) - start]
        )
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return _Transform(
            spaces.Box(0.0, 1.0, (size,), np.float32),
            lambda values: np.asarray(values, np.float32).reshape(-1, size),
        )
    raise ConfigurationError(
        f"Environment {label!r} has the observation space {space}; there are networks for Box (vectors, images as "
        f"uint8 [height, width, channels]), Discrete and MultiBinary. Wrap the environment, for example with "
        f"gymnasium.wrappers.FlattenObservation."
    )


def _action_transform(space: gym.Space[Any], label: str) -> _Transform:
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return _Transform(spaces.Discrete(int(space.n)), lambda actions: np.asarray(actions, np.int64) + start)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            free = spaces.Box(-np.inf, np.inf, space.shape, np.float32)
            return _Transform(free, lambda actions: np.clip(actions, space.low, space.high).astype(space.dtype))
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)

        def stretch(actions: Array) -> Array:
            share = (np.clip(actions, -1.0, 1.0) + 1.0) / 2.0  # [N, D] within [0, 1]
            return (low + share * (high - low)).astype(space.dtype)

        return _Transform(spaces.Box(-1.0, 1.0, space.shape, np.float32), stretch)
    raise ConfigurationError(
        f"Environment {label!r} has the action space {space}; agents take Discrete and Box (floats). "
        f"Wrap the environment, for example with gymnasium.wrappers.FlattenAction or a TransformAction."
    )
