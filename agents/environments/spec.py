"""An environment as data: its id (or what makes it) and arguments. It can be sent to another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import gymnasium as gym
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from agents.environments.goals import FlatObservations
from agents.environments.interface import Interface
from agents.environments.places import check_environment_id, found_environment
from agents.environments.wrappers import Wrapping, checked_wrappers, wrapped, wrapper_text
from agents.errors import ConfigurationError, unknown_name

AgentActions = spaces.Discrete | spaces.MultiDiscrete | spaces.Box
"""Kinds of action spaces as agents see them."""

VECTORIZATIONS = ("auto", "native", "envpool", "sync", "async", "ray", "ray-subproc")
OTHER_NAMES = {"dummy": "sync", "subproc": "async"}
"""What some vectorizations are called elsewhere -> what they are called here."""


def canonical_vectorization(name: str) -> str:
    """One name for each way of stepping copies; raises `ConfigurationError` where there is no such way."""
    if name not in (*VECTORIZATIONS, *OTHER_NAMES):
        raise unknown_name("vectorization", name, (*VECTORIZATIONS, *OTHER_NAMES))
    return OTHER_NAMES.get(name, name)


class Described(Protocol):
    """Base class for records that name an environment: a study, a pick, the settings of a run."""

    @property
    def env(self) -> str: ...

    @property
    def env_kwargs(self) -> Mapping[str, Any]: ...

    @property
    def wrappers(self) -> Sequence[str]: ...

    @property
    def max_episode_steps(self) -> int | None: ...


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment that is not made yet; it can be sent to another process.

    Attributes:
        id: A Gymnasium id (``"CartPole-v1"``), ``"module:Class"``, ``"file.py:Class"``, or a function that makes an
            environment.
        kwargs: Arguments for the environment.
        vectorization: How several copies are stepped. ``"native"``: by Gymnasium's own vectorised environment (CartPole
            has one). ``"envpool"``: by EnvPool, which must be installed. ``"sync"``, or ``"dummy"``: one after
            another. ``"async"``, or ``"subproc"``: each in a process of its own. ``"ray"``: each in an actor of its
            own in a Ray cluster. ``"ray-subproc"``: an actor for each machine of the cluster, where each of its
            copies has a process of its own. ``"auto"``: native or sync; never envpool, whose runs
            cannot go on exactly. Of two names for the same it keeps the first. Defaults to ``"auto"``.
        wrappers: What is put around it, the first one innermost: names of `gymnasium.wrappers` or places of one's own
            classes, with arguments (``"FrameStackObservation:stack_size=4"``, ``"file.py:Class:scale=2"``), or classes
            and functions. Defaults to none.
        max_episode_steps: Episodes are truncated after so many steps, >= 1, as `gymnasium.make` does it: in place of
            the limit that the id is registered with, and inside of the wrappers. Defaults to None: that limit.

    Raises:
        ConfigurationError: There is no such vectorization or wrapper, or the limit is not a whole number >= 1.
    """

    id: str | Callable[..., gym.Env[Any, Any]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    vectorization: str = "auto"
    wrappers: Sequence[Wrapping] = ()
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuses a vectorization or a wrapper that does not exist, and keeps one form of each."""
        object.__setattr__(self, "vectorization", canonical_vectorization(self.vectorization))
        object.__setattr__(self, "wrappers", checked_wrappers(self.wrappers))
        limit = self.max_episode_steps
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ConfigurationError(f"max_episode_steps must be a whole number >= 1, got {limit!r}.")

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: with its registration, which the script made that runs here only."""
        own: dict[str, Any] = {"id": self.id, "kwargs": self.kwargs, "vectorization": self.vectorization}
        own |= {"wrappers": self.wrappers, "max_episode_steps": self.max_episode_steps}
        return own | {"registration": self._registration()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name in ("id", "kwargs", "vectorization"):
            object.__setattr__(self, name, state[name])
        object.__setattr__(self, "wrappers", state.get("wrappers", ()))  # specs of before had none
        object.__setattr__(self, "max_episode_steps", state.get("max_episode_steps"))
        registration = state["registration"]
        if registration is not None:
            gym.registry.setdefault(registration.id, registration)

    def _registration(self) -> Any:
        if not isinstance(self.id, str) or ".py:" in self.id:  # a file is run again where it is needed
            return None
        known = gym.registry.get(self.id.rpartition(":")[2])
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

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return a key that equal environments share, however copies of them are stepped.

        It holds classes and functions themselves, not their names: those that a function makes all have the same name.
        """
        return self.id, repr(self.kwargs), tuple(self.wrappers), self.max_episode_steps

    @property
    def described(self) -> dict[str, Any]:
        """Return the environment as a study, a run folder and a checkpoint keep it; `of_described` reads it.

        Raises:
            ConfigurationError: A wrapper has no name of its own.
        """
        return {
            "env": self.label,
            "env_kwargs": dict(self.kwargs),
            "wrappers": tuple(map(wrapper_text, self.wrappers)),
            "max_episode_steps": self.max_episode_steps,
        }

    @classmethod
    def of_described(cls, described: Described, vectorization: str = "auto") -> EnvironmentSpec:
        """The environment of a study, a pick or a run.

        Raises:
            ConfigurationError: It does not exist (nearest names are given).
        """
        check_environment_id(described.env)
        limit = described.max_episode_steps
        return cls(described.env, dict(described.env_kwargs), vectorization, tuple(described.wrappers), limit)

    def make(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """One environment; an observation in parts (`Dict`, `Tuple`) becomes one vector.

        Raises:
            ConfigurationError: It cannot be made; the cause is in the message.
        """
        made = self.make_plain(**kwargs)
        in_parts = isinstance(made.observation_space, spaces.Dict | spaces.Tuple)
        return FlatObservations(made, self.label) if in_parts else made

    def make_plain(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """One environment with its wrappers, as a plain Gymnasium loop steps it.

        Raises:
            ConfigurationError: It cannot be made; the cause is in the message.
        """
        arguments, limit = {**self.kwargs, **kwargs}, self.max_episode_steps
        maker = found_environment(self.id) if isinstance(self.id, str) else self.id
        try:
            if isinstance(maker, str):
                limited = {} if limit is None else {"max_episode_steps": limit}
                made = gym.make(maker, disable_env_checker=True, **{**arguments, **limited})
            else:
                made = maker(**arguments)
        except Exception as error:
            raise ConfigurationError(
                f"Environment {self.label!r} cannot be made with {arguments!r}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, gym.Env):
            raise ConfigurationError(f"{self.label!r} must make a gymnasium.Env, it made {made!r}.")
        if limit is not None and not isinstance(maker, str):
            made = TimeLimit(made, limit)
        return wrapped(made, self.wrappers, self.label)

    def interface(self) -> Interface:
        """Both sides of its spaces: its own, and those that an agent sees. It is made once, to look.

        Raises:
            ConfigurationError: One of them is of a kind that no network of ours takes.
        """
        environment = self.make_plain()
        try:
            return Interface(environment.observation_space, environment.action_space, self.label)
        finally:
            environment.close()

    def spaces(self) -> tuple[spaces.Box, AgentActions]:
        """The observation and action space that an agent sees.

        Raises:
            ConfigurationError: One of them is of a kind that no network of ours takes.
        """
        interface = self.interface()
        return interface.observation_space, interface.action_space
