"""Wrappers of an environment by name: Gymnasium's (``"FrameStackObservation:stack_size=4"``), and a user's own."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import loaded, place_of

Wrapping = str | Callable[..., gym.Env[Any, Any]]
"""A name with arguments, or a function (a class, a `functools.partial`) from an environment to the wrapped one."""

_ARGUMENTS = re.compile(r":(?=[A-Za-z_]\w*=)")
_NEXT = re.compile(r",(?=[A-Za-z_]\w*=)")


class NamedWrapper(NamedTuple):
    """A wrapper as text: the place of its class, and its arguments."""

    place: str
    arguments: dict[str, Any]

    @classmethod
    def of(cls, text: str) -> NamedWrapper:
        """Parse ``"PLACE"`` or ``"PLACE:name=value,name=value"``; a value is JSON, or else text."""
        place, *arguments = split_arguments(text.strip())
        pairs = [pair.partition("=") for each in arguments for pair in _NEXT.split(each)]
        return cls(place, {name: _value(value) for name, _, value in pairs})

    def find(self) -> Callable[..., gym.Env[Any, Any]]:
        """Return the class or function.

        Raises:
            ConfigurationError: The name is unknown; the message gives the nearest wrappers of Gymnasium.
        """
        if ":" in self.place:
            try:
                found = loaded(self.place, gym.Wrapper)
            except ConfigurationError as error:
                raise ConfigurationError(f"The wrapper {self.place!r} cannot be loaded: {error}") from error
        else:
            found = _of_gymnasium().get(self.place)
            if found is None:
                unknown = str(unknown_name("wrapper", self.place, _of_gymnasium()))
                raise ConfigurationError(
                    f"{unknown} A wrapper of your own is written module:Class or file.py:Class; arguments follow as "
                    f"FrameStackObservation:stack_size=4."
                )
        if not callable(found):
            raise ConfigurationError(f"The wrapper {self.place!r} is neither a class nor a function: {found!r}.")
        return functools.partial(found, **self.arguments) if self.arguments else found


def split_arguments(text: str) -> list[str]:
    """Split ``"PLACE:name=value,name=value"`` into place and arguments; a wrapper without arguments is its place."""
    return _ARGUMENTS.split(text, maxsplit=1)


def checked_wrappers(wrappers: Wrapping | Sequence[Wrapping]) -> tuple[Wrapping, ...]:
    """Return wrappers as a tuple; raise `ConfigurationError` where one does not exist."""
    several = (wrappers,) if isinstance(wrappers, str) or callable(wrappers) else tuple(wrappers)
    for each in several:
        if isinstance(each, str):
            NamedWrapper.of(each).find()
        elif not callable(each):
            raise ConfigurationError(
                f"A wrapper must be a name such as 'FrameStackObservation:stack_size=4', or a class, got {each!r}."
            )
    return several


def wrapper_text(wrapper: Wrapping) -> str:
    """Return a wrapper as text, the form that studies and checkpoints store.

    Raises:
        ConfigurationError: The wrapper has no name that identifies it (for example a lambda).
    """
    if isinstance(wrapper, functools.partial):
        if wrapper.args:
            raise ConfigurationError(f"The wrapper {wrapper!r} must have its arguments by name: name=value.")
        try:
            given = [f"{name}={json.dumps(value, default=_plain)}" for name, value in wrapper.keywords.items()]
        except TypeError as error:
            raise ConfigurationError(
                f"The arguments of the wrapper {wrapper!r} must be numbers, texts or lists of these ({error}): define "
                "a class or a function that makes the wrapper."
            ) from None
        arguments = ",".join(given)
        return f"{wrapper_text(wrapper.func)}:{arguments}" if arguments else wrapper_text(wrapper.func)
    return place_of(wrapper)


def _plain(value: Any) -> Any:
    """Return a number or an array of NumPy as numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def apply_wrappers(environment: gym.Env[Any, Any], wrappers: Sequence[Wrapping], label: str) -> gym.Env[Any, Any]:
    """Put wrappers around an environment, the first one innermost.

    Raises:
        ConfigurationError: A wrapper cannot be applied; the message contains the cause.
    """
    for each in wrappers:
        try:
            outer = (NamedWrapper.of(each).find() if isinstance(each, str) else each)(environment)
        except Exception as error:
            environment.close()
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(
                f"The wrapper {each!r} cannot be put around {label!r}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(outer, gym.Env):
            raise ConfigurationError(f"The wrapper {each!r} must return a gymnasium.Env, it returned {outer!r}.")
        environment = outer
    return environment


@functools.cache
def _of_gymnasium() -> dict[str, Any]:
    import gymnasium.wrappers as known

    return {
        name: found
        for name, found in vars(known).items()
        if isinstance(found, type) and issubclass(found, gym.Wrapper) and not name.startswith("_")
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)
