"""Make exploration objects from a name and arguments, with errors that list the allowed values."""

import inspect
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import loaded

T = TypeVar("T")


def make_by_name(
    family: str, registry: Mapping[str, type[T]], name_or_object: str | T, base: type[T], kwargs: dict[str, Any]
) -> T:
    """Make an object of a registered class, or return a ready-made one.

    Args:
        family: Kind of object in the registry, in the singular, for messages ("policy").
        registry: Classes by name.
        name_or_object: A name (case, hyphens and underscores do not matter, so that "EpsilonGreedy" and
            "epsilon_greedy" both find "epsilon-greedy"); a user's class as "module:Class" or "file.py:Class"; or
            an object of the family.
        base: The class that all objects of the family have.
        kwargs: Arguments of the class's constructor; empty with a ready-made object.

    Raises:
        ConfigurationError: Unknown name or argument (the nearest ones are given), a missing argument, arguments for
            a ready-made object, or something that is neither a name nor an object of the family.
    """
    if isinstance(name_or_object, base):
        if kwargs:
            raise ConfigurationError(
                f"{_list(kwargs)} cannot be set on a {family} that already exists; give the {family}'s name instead"
            )
        return name_or_object
    if not isinstance(name_or_object, str):
        raise ConfigurationError(f"a {family} is one of {_list(registry)} or a {base.__name__}, got {name_or_object!r}")
    plain = {_plain(name): name for name in registry}
    name = plain.get(_plain(name_or_object))
    if ":" in name_or_object:
        name, made_class = name_or_object, _of_user(family, name_or_object, base)
    elif name is None:
        raise unknown_name(family, name_or_object, registry)
    else:
        made_class = registry[name]
    parameters = inspect.signature(made_class).parameters
    gathers = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {key: parameter for key, parameter in parameters.items() if parameter.kind not in gathers}
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for given in kwargs:
        if given not in named and not takes_any:
            raise unknown_name(f"argument of the {family} {name!r}", given, named)
    missing = [key for key, par in named.items() if par.default is par.empty and key not in kwargs]
    if missing:
        raise ConfigurationError(f"the {family} {name!r} needs {_list(missing)}")
    try:
        return made_class(**kwargs)
    except TypeError as error:  # a user's constructor that forwards its arguments
        if not takes_any:
            raise
        raise ConfigurationError(f"the {family} {name!r} cannot be made with {kwargs!r}: {error}") from error


def _of_user(family: str, path: str, base: type[T]) -> type[T]:
    try:
        found = loaded(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"the {family} {path!r} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigurationError(
            f"{path!r} is not a {family}: it must be a subclass of agents.exploration.{base.__name__}"
        )
    return found


def require_keys(owner: str, state: Mapping[str, Any], keys: set[str]) -> None:
    """Refuse a saved state of another object.

    Raises:
        ValueError: The state has not exactly these keys.
    """
    if set(state) != keys:
        raise ValueError(f"a state of {owner} has the keys {sorted(keys)}, got {sorted(map(str, state))}")


def require_positive(name: str, value: float) -> float:
    """Return the parameter as a float, or raise an error.

    Raises:
        ConfigurationError: The value is not a finite number > 0.
    """
    if not 0.0 < value < math.inf:
        raise ConfigurationError(f"{name} must be a finite number > 0, got {value!r}")
    return float(value)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def _list(names: Any) -> str:
    return ", ".join(map(repr, names))
