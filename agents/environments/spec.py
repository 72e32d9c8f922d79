"""An environment as data: its id (or what makes it) and arguments. It can be sent to another process."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from agents.environments.goals import FlatObservations
from agents.environments.transforms import action_transform, observation_transform
from agents.errors import ConfigurationError, unknown_name

VECTORIZATIONS = ("auto", "native", "envpool", "sync", "async", "ray", "ray-subproc")
OTHER_NAMES = {"dummy": "sync", "subproc": "async"}
"""What some vectorizations are called elsewhere -> what they are called here."""


def canonical_vectorization(name: str) -> str:
    """One name for each way of stepping copies; raises `ConfigurationError` where there is no such way."""
    if name not in (*VECTORIZATIONS, *OTHER_NAMES):
        raise unknown_name("vectorization", name, (*VECTORIZATIONS, *OTHER_NAMES))
    return OTHER_NAMES.get(name, name)


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment that is not made yet; it can be sent to another process.

    Attributes:
        id: A Gymnasium id (``"CartPole-v1"``), or a function without arguments that makes an environment.
        kwargs: Arguments for the environment.
        vectorization: How several copies are stepped. ``"native"``: by Gymnasium's own vectorised environment (CartPole
            has one). ``"envpool"``: by EnvPool, which must be installed. ``"sync"``, or ``"dummy"``: one after
            another. ``"async"``, or ``"subproc"``: each in a process of its own. ``"ray"``: each in an actor of its
            own in a Ray cluster. ``"ray-subproc"``: an actor for each machine of the cluster, where each of its
            copies has a process of its own. ``"auto"``: the first of native, envpool and sync that can. Of two names
            for the same it keeps the first. Defaults to ``"auto"``.

    Raises:
        ConfigurationError: There is no such vectorization.
    """

    id: str | Callable[..., gym.Env[Any, Any]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    vectorization: str = "auto"

    def __post_init__(self) -> None:
        """Refuses a vectorization that does not exist, and keeps one name for each."""
        object.__setattr__(self, "vectorization", canonical_vectorization(self.vectorization))

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: with its registration, which the script made that runs here only."""
        own = {"id": self.id, "kwargs": self.kwargs, "vectorization": self.vectorization}
        return own | {"registration": self._registration()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name in ("id", "kwargs", "vectorization"):
            object.__setattr__(self, name, state[name])
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
            return value if kwargs is None else replace(value, kwargs=dict(kwargs))
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
        """One environment; an observation in parts (`Dict`) becomes one vector.

        Raises:
            ConfigurationError: It cannot be made; the cause is in the message.
        """
        arguments = {**self.kwargs, **kwargs}
        try:
            if isinstance(self.id, str):
                made = gym.make(self.id, disable_env_checker=True, **arguments)
            else:
                made = self.id(**arguments)
        except Exception as error:
            raise ConfigurationError(
                f"Environment {self.label!r} cannot be made with {arguments!r}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, gym.Env):
            raise ConfigurationError(f"{self.label!r} must make a gymnasium.Env, it made {made!r}.")
        return FlatObservations(made, self.label) if isinstance(made.observation_space, spaces.Dict) else made

    def spaces(self) -> tuple[spaces.Box, spaces.Discrete | spaces.Box]:
        """The observation and action space that an agent sees.

        Raises:
            ConfigurationError: One of them is of a kind that no network of ours takes.
        """
        environment = self.make()
        try:
            observation = observation_transform(environment.observation_space, self.label).space
            action = action_transform(environment.action_space, self.label).space
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
