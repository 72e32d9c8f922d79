"""Environments named by text: a Gymnasium id, or a class or function of a module or of a file."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import MissingModuleError, innermost, loaded, module_of

Maker = Callable[..., gym.Env[Any, Any]]

# A file that registers environments runs again where it is also imported by its name, and in each further process.
warnings.filterwarnings("ignore", message=r"(?s).*Overriding environment .* already in registry")


def name_of_maker(maker: Maker) -> str:
    """Return the name of a class or function; of a partial function, that of the wrapped function.

    Of another object it is its text, or the name of its class where the text has an address.
    """
    made_by = innermost(maker)
    text = str(getattr(made_by, "__name__", None) or repr(made_by))
    return type(made_by).__name__ if " at 0x" in text else text


def found_environment(id: str) -> str | Maker:
    """Return the Gymnasium id, class or function that a text names.

    Args:
        id: ``"CartPole-v1"``; ``"module:CartPole-v1"``, where the module registers it; ``"module:Class"``;
            ``"file.py:Class"``; or ``"file.py:Id-v0"``, where the file registers it.

    Raises:
        ConfigurationError: There is no such environment; the message lists the nearest ids, or those in the file.
    """
    module, colon, name = id.rpartition(":")
    if not colon:
        if id.endswith(".py"):
            raise ConfigurationError(f"The environment {id!r} names no class: write {id}:Class.{_classes_listed(id)}")
        _check_registered(id)
        return id
    try:
        found = getattr(module_of(module), name, None)
    except ConfigurationError as error:
        reason = str(error)
        if isinstance(error, MissingModuleError):
            what = "the file" if module.endswith(".py") else f"module {module!r}"
            reason = f"{what} cannot be imported: {reason}."
        raise ConfigurationError(f"Environment {id!r}: {reason}") from error
    if name in gym.registry:
        return name
    if found is None:
        if module.endswith(".py"):
            raise ConfigurationError(
                f"Environment {id!r}: {module} has nothing called {name!r}.{_classes_listed(module)}"
            )
        _check_registered(name)
        return name
    if not callable(found):
        raise ConfigurationError(f"Environment {id!r} is neither a class nor a function: {found!r}.")
    return loaded(id, gym.Env)  # type: ignore[no-any-return]


def check_environment_id(id: str) -> None:
    """Raise `ConfigurationError` with the nearest names if there is no such environment."""
    found_environment(id)


def _check_registered(id: str) -> None:
    try:
        gym.spec(id)
    except gym.error.Error as error:
        known = {registered.id for registered in gym.registry.values()}
        stem = id.rpartition("-v")[0].lower()
        versions = sorted(other for other in known if stem and other.rpartition("-v")[0].lower() == stem)
        detail = f" Registered under that name: {', '.join(versions)}." if versions else ""
        unknown = unknown_name("environment", id, known)
        raise ConfigurationError(str(unknown).partition(" Known:")[0] + detail) from error


def _classes_listed(file: str) -> str:
    """Return a sentence on the environments that a file defines, without running it; "" if it cannot be read."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
            if any(base.endswith("Env") or base in found for base in bases):
                found.append(node.name)
    return f" Environments in it: {', '.join(found)}." if found else " There is no environment in it."
