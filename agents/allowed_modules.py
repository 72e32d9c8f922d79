"""Modules that text may name: a study from a storage that others write names environments, agents, callbacks and more.

What such text names is imported, and importing a module runs it. Whoever runs a study that others may change says which
modules it may name. The product's own packages and Gymnasium are always among them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError

VARIABLE = "FINDER_ALLOW_MODULES"
"""Environment variable: modules, or files, that may be named beside those of a command; separated by commas."""

ALWAYS = ("agents", "finder", "studies", "gymnasium", "keras")
"""Packages that may always be named."""

_NEVER = ("finder.cli",)
"""The command line runs whatever its arguments name."""

_ACTIVE = "FINDER_ONLY_MODULES"
"""Environment variable for the processes that a restricted one starts: what may be named, a line each."""


def modules_of_environment() -> tuple[str, ...]:
    """Returns the modules that `FINDER_ALLOW_MODULES` lists."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


@contextlib.contextmanager
def only_modules(names: Iterable[str]) -> Iterator[None]:
    """Has text name these modules only, here and in processes that are started meanwhile.

    Args:
        names: Modules with all that is in them (``"mine"`` for ``"mine.robots"`` too), or files (``"robots.py"``).
    """
    before = os.environ.get(_ACTIVE)
    os.environ[_ACTIVE] = "\n".join([*ALWAYS, *names, *modules_of_environment()])
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ACTIVE]
        else:
            os.environ[_ACTIVE] = before


def check_module(name: str) -> None:
    """Refuses a module, or a file, that text may not name.

    Raises:
        ConfigurationError: It may not; names the flag that allows it.
    """
    allowed = os.environ.get(_ACTIVE)
    if allowed is None or (name and any(_is_in(name, each) for each in allowed.split("\n")) and not _is_never(name)):
        return
    raise ConfigurationError(
        f"the study names code in {name!r}, and others may write to its storage. If you trust that code, allow it: "
        f"--allow-module {name} (or {VARIABLE}={name}; in Python allow_modules)."
    )


def check_found(path: str, found: Any) -> None:
    """Refuses what a module that may be named has imported from one that may not.

    Raises:
        ConfigurationError: See `check_module`.
    """
    if os.environ.get(_ACTIVE) is None or path.rpartition(":")[0].endswith(".py"):
        return
    home = getattr(found, "__module__", None)
    check_module(home if isinstance(home, str) else str(getattr(found, "__name__", path)))


def check_config(config: Any) -> None:
    """Refuses the config of a Keras object that names a module, anywhere in it, that it may not.

    Raises:
        ConfigurationError: See `check_module`.
    """
    if isinstance(config, Mapping):
        if isinstance(config.get("module"), str):
            check_module(config["module"])
        for each in config.values():
            check_config(each)
    elif isinstance(config, list | tuple):
        for each in config:
            check_config(each)


def _is_in(name: str, allowed: str) -> bool:
    if name.endswith(".py"):
        return allowed.endswith(".py") and Path(name).resolve() == Path(allowed).resolve()
    return name == allowed or name.startswith(f"{allowed}.")


def _is_never(name: str) -> bool:
    return any(_is_in(name, each) for each in _NEVER)
