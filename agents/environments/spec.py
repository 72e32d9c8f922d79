"""An environment as data: its id or factory, and its arguments. Specifications can be sent to other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import gymnasium as gym
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from agents.environments.goals import FlatObservations
from agents.environments.interface import Interface
from agents.environments.multi_agent.conversion import as_parallel
from agents.environments.multi_agent.joint_env import JointEnv
from agents.environments.places import check_environment_id, found_environment, name_of_maker
from agents.environments.wrappers import Wrapping, apply_wrappers, checked_wrappers, wrapper_text
from agents.errors import ConfigurationError, check_whole, unknown_name

AgentActions = spaces.Discrete | spaces.MultiDiscrete | spaces.Box
"""Kinds of action spaces that agents see."""

VECTORIZATIONS = ("auto", "native", "envpool", "sync", "async", "ray", "ray-subproc")
OTHER_NAMES = {"dummy": "sync", "subproc": "async"}
"""Name of a vectorization in other libraries -> its name here."""


def canonical_vectorization(name: str) -> str:
    """Return the canonical name of a vectorization; raise `ConfigurationError` for an unknown one."""
    if name not in (*VECTORIZATIONS, *OTHER_NAMES):
        raise unknown_name("vectorization", name, (*VECTORIZATIONS, *OTHER_NAMES))
    return OTHER_NAMES.get(name, name)


class Described(Protocol):
    """Interface of records that name an environment: a study, a pick, the settings of a run."""

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
    """Specification of an environment, which can be sent to another process.

    Attributes:
        id: A Gymnasium id (``"CartPole-v1"``), ``"module:Class"``, ``"file.py:Class"``, or a function that makes an
            environment.
        kwargs: Arguments for the environment.
        vectorization: Kind of vector environment. ``"native"``: Gymnasium's own vectorised environment (CartPole only).
            ``"envpool"``: EnvPool, which must be installed. ``"sync"``, or ``"dummy"``: copies stepped one after
            another. ``"async"``, or ``"subproc"``: one process per copy. ``"ray"``: one Ray actor per copy.
            ``"ray-subproc"``: one actor per machine of the cluster, with one process per copy. ``"auto"``: native or
            sync; never envpool, whose runs cannot be resumed exactly. Of two names for the same kind the first is
            stored. Defaults to ``"auto"``.
        wrappers: Wrappers, the first one innermost: names of `gymnasium.wrappers` or places of a user's classes, with
            arguments (``"FrameStackObservation:stack_size=4"``, ``"file.py:Class:scale=2"``), or classes
            and functions. Defaults to none.
        max_episode_steps: Steps after which episodes are truncated, >= 1, as in `gymnasium.make`: replaces the limit of
            the registration, and applies inside the wrappers. Defaults to None, the limit of the registration.

    Raises:
        ConfigurationError: The vectorization or a wrapper does not exist, or the limit is not a whole number >= 1.
    """

    id: str | Callable[..., gym.Env[Any, Any]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    vectorization: str = "auto"
    wrappers: Sequence[Wrapping] = ()
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown vectorization or wrapper, and store the canonical form of each."""
        object.__setattr__(self, "vectorization", canonical_vectorization(self.vectorization))
        object.__setattr__(self, "wrappers", checked_wrappers(self.wrappers))
        check_whole(1, max_episode_steps=self.max_episode_steps)
        if self.max_episode_steps is not None:
            object.__setattr__(self, "max_episode_steps", int(self.max_episode_steps))  # of NumPy, perhaps

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, with the registration of an id that only this script has registered."""
        own: dict[str, Any] = {"id": self.id, "kwargs": self.kwargs, "vectorization": self.vectorization}
        own |= {"wrappers": self.wrappers, "max_episode_steps": self.max_episode_steps}
        return own | {"registration": self._registration()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name in ("id", "kwargs", "vectorization"):
            object.__setattr__(self, name, state[name])
        object.__setattr__(self, "wrappers", state.get("wrappers", ()))  # missing in older specs
        object.__setattr__(self, "max_episode_steps", state.get("max_episode_steps"))
        registration = state["registration"]
        if registration is not None:
            gym.registry.setdefault(registration.id, registration)

    def _registration(self) -> Any:
        if not isinstance(self.id, str) or ".py:" in self.id:  # other processes run a file again
            return None
        known = gym.registry.get(self.id.rpartition(":")[2])
        if known is not None and isinstance(known.entry_point, str) and known.entry_point.startswith("__main__:"):
            maker: Any = gym.envs.registration.load_env_creator(known.entry_point)
            return replace(known, entry_point=maker)
        return known

    @classmethod
    def of(cls, value: Any, kwargs: Mapping[str, Any] | None = None) -> EnvironmentSpec:
        """Make a spec from an id, a function that makes an environment, or a spec.

        Raises:
            ConfigurationError: The id is not registered (the message names the nearest ids), or `value` is neither.
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
        """A short name for messages."""
        return self.id if isinstance(self.id, str) else name_of_maker(self.id)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return a key that equal environments share, independent of their vectorization.

        The key contains classes and functions themselves, because functions defined in a function share one name.
        """
        return self.id, repr(self.kwargs), tuple(self.wrappers), self.max_episode_steps

    @property
    def described(self) -> dict[str, Any]:
        """Return the environment in the form that studies, run folders and checkpoints store; `of_described` reads it.

        Raises:
            ConfigurationError: A wrapper has no name.
        """
        return {
            "env": self.label,
            "env_kwargs": dict(self.kwargs),
            "wrappers": tuple(map(wrapper_text, self.wrappers)),
            "max_episode_steps": self.max_episode_steps,
        }

    @classmethod
    def of_described(cls, described: Described, vectorization: str = "auto") -> EnvironmentSpec:
        """Return the environment of a study, a pick or a run.

        Raises:
            ConfigurationError: The environment does not exist (the message gives the nearest names).
        """
        check_environment_id(described.env)
        limit = described.max_episode_steps
        return cls(described.env, dict(described.env_kwargs), vectorization, tuple(described.wrappers), limit)

    def make(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """Return one environment; an observation in parts (`Dict`, `Tuple`) becomes one vector.

        Raises:
            ConfigurationError: The environment cannot be made; the message contains the cause.
        """
        made = self.make_plain(**kwargs)
        in_parts = isinstance(made.observation_space, spaces.Dict | spaces.Tuple)
        return FlatObservations(made, self.label) if in_parts else made

    def make_plain(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """Return one environment with its wrappers, as a plain Gymnasium loop steps it.

        Raises:
            ConfigurationError: The environment cannot be made, or has no spaces; the message contains the cause.
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
        parallel = as_parallel(made, self.label)
        if parallel is not None:
            made = JointEnv(parallel, self.label)
        if not isinstance(made, gym.Env):
            raise ConfigurationError(
                f"{self.label!r} must make a gymnasium.Env, or an environment of PettingZoo, it made {made!r}."
            )
        if limit is not None and not isinstance(maker, str):
            made = TimeLimit(made, limit)
        environment = apply_wrappers(made, self.wrappers, self.label)
        for name in ("observation_space", "action_space"):
            if not isinstance(space := getattr(environment, name, None), spaces.Space):
                environment.close()
                raise ConfigurationError(
                    f"{self.label!r} must have a gymnasium.Space as its {name}, it has {space!r}: set it in __init__."
                )
        return environment

    def interface(self) -> Interface:
        """Return the converter between the environment's spaces and the agent's. Makes the environment once.

        Raises:
            ConfigurationError: One of the spaces is of a kind that no network accepts.
        """
        environment = self.make_plain()
        try:
            return Interface(environment.observation_space, environment.action_space, self.label)
        finally:
            environment.close()

    def spaces(self) -> tuple[spaces.Box, AgentActions]:
        """Return the observation and action space that an agent sees.

        Raises:
            ConfigurationError: One of the spaces is of a kind that no network accepts.
        """
        interface = self.interface()
        return interface.observation_space, interface.action_space
