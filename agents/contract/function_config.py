"""Hyperparameters of a user's training function, read from its signature.

The parameters after the first are hyperparameters: their defaults are the function's own configuration, their
annotations define the allowed values. `Annotated` adds the metadata of a config field::

    learning_rate: Annotated[float, agents.Hyperparameter(help="Step size.", search=(1e-5, 1e-1), log=True)] = 3e-4

Parameters whose defaults are not plain values (functions, classes, objects) are not hyperparameters.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, Optional, get_args, get_origin, get_type_hints

from agents.config.hyperparameters import METADATA, Config, Hyperparameter
from agents.errors import ConfigurationError
from agents.trust.loading import innermost

_Kind = inspect.Parameter
_PLAIN = (bool, int, float, str, type(None))
_TAKEN = ("agent",)
"""Names that a study reserves; the names of `Config` are reserved too."""


class _KeywordsConfig(Config):
    """Config of a function with `**kwargs`, whose names are unknown."""

    @classmethod
    def unknown_hyperparameter(cls, owner: str, name: str, known: Iterable[str]) -> ConfigurationError:
        error = super().unknown_hyperparameter(owner, name, known)
        return ConfigurationError(f"{error} Those in **kwargs are none: name them in its signature, with defaults.")


def name_of_function(function: Any) -> str:
    """Return the name of a function; of a partial function, the name of the wrapped function."""
    inner = innermost(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def config_of(function: Callable[..., Any]) -> type[Config]:
    """Return the config class of a training function's hyperparameters, made from its signature.

    Raises:
        ConfigurationError: The function takes no run, or has a parameter that cannot be a hyperparameter.
    """
    name = name_of_function(function)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD):
        raise ConfigurationError(f"The training function {name} must take its run as the first argument: {name}(run).")
    if parameters[0].default is not inspect.Parameter.empty:
        raise ConfigurationError(
            f"The training function {name} must take its run as the first argument, without a default, got "
            f"{parameters[0].name!r}: {name}(run, {parameters[0].name})."
        )
    hints = _hints(function)
    named = [each for each in parameters[1:] if each.kind not in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)]
    fields = [_field(name, each, hints) for each in named]
    has_keywords = any(each.kind is _Kind.VAR_KEYWORD for each in parameters)
    made = dataclasses.make_dataclass(
        "FunctionConfig",
        [field for field in fields if field is not None],
        bases=(_KeywordsConfig if has_keywords else Config,),
        namespace={"owner": classmethod(lambda _: name)},
        frozen=True,
        kw_only=True,
    )
    try:
        made()
    except ConfigurationError as error:
        raise ConfigurationError(f"A default of the training function {name}: {error}") from error
    return made


def _field(owner: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the field of a parameter, or None if it is not a hyperparameter."""
    name, default = parameter.name, parameter.default
    parameter_text = f"The parameter {name!r} of the training function {owner}"
    if default is parameter.empty:
        raise ConfigurationError(f"{parameter_text} has no default: give it one.")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(f"{parameter_text} is positional-only: put it behind the / in the signature.")
    if not _is_plain(default):
        return None
    if name in _TAKEN or hasattr(Config, name):
        raise ConfigurationError(f"{parameter_text} has a name that Finder reserves: give it another name.")
    hint = hints.get(name, type(default) if isinstance(default, bool | int | float | str) else Any)
    about = Hyperparameter(help=f"A parameter of {owner}.", log=name == "learning_rate")
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        about = next((each for each in more if isinstance(each, Hyperparameter)), about)
    kind = hint if default is not None else Optional[hint]  # noqa: UP045 - the hint may be any object
    return name, kind, dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata={METADATA: about})


def _hints(function: Any) -> dict[str, Any]:
    function = inspect.unwrap(innermost(function))  # as `inspect.signature` does
    hints: dict[str, Any] = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: hint})
        with contextlib.suppress(NameError):  # a name that is imported only for type checkers
            hints |= get_type_hints(alone, globalns=function.__globals__, include_extras=True)
    return hints


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)
