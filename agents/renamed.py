"""Renamed methods, attributes and arguments: the former names work for one version more, with a DeprecationWarning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from agents.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")


def keep_old_names(cls: type, renamed: Mapping[str, str]) -> None:
    """Give a class and its mixins their methods under their old and their new names, whichever of the two they define.

    So an override of an old name is called under the new one, and ``super().old_name(...)`` reaches the next class.
    Attributes that are not methods or properties are left alone.

    Args:
        cls: The class; called for the base class once, from its `__init_subclass__`, and where an object is made
            (a class that is unpickled gets its methods after `__init_subclass__`).
        renamed: Old name -> new name.
    """
    for owner in cls.__mro__[:-1]:  # without `object`
        own = vars(owner)
        for old, new in renamed.items():
            if old in own and new not in own and _is_method(own[old]):
                warnings.warn(
                    f"{owner.__module__}.{owner.__qualname__}.{old} is deprecated: name it {new}.",
                    DeprecationWarning,
                    stacklevel=4,
                )
                setattr(owner, new, own[old])
            elif new in own and old not in own and _is_method(own[new]):
                setattr(owner, old, own[new])


def _is_method(attribute: object) -> bool:
    return hasattr(type(attribute), "__get__")


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated.

    Args:
        old: The deprecated name, such as ``"the argument metrics"``.
        new: What to write instead.
        stacklevel: Frames between this function and the caller's code, plus one. Defaults to 3.
    """
    warnings.warn(
        f"{old} is deprecated and will be removed in the next version: use {new}.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def renamed_arguments(**renamed: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that accepts keyword arguments under their deprecated names too.

    Args:
        **renamed: Deprecated name -> present name.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **with_present_names(kwargs, renamed))

        return call

    return decorate


def with_present_names(given: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments under their present names, with a warning for each deprecated one.

    The warning is for the line that called the function that calls this one.

    Args:
        given: The arguments.
        renamed: Deprecated name -> present name.

    Raises:
        ConfigurationError: An argument is given under both names.
    """
    result = dict(given)
    for old, new in renamed.items():
        if old in result:
            if new in result:
                raise ConfigurationError(f"{old} is the deprecated name of {new}: give one of them.")
            result[new] = result.pop(old)
            warn_renamed(f"the argument {old}", new, stacklevel=4)
    return result
