"""Modules that text may name: a study in a shared storage names environments, agents, callbacks and more.

Named modules are imported, and importing a module runs its code. To run a study that others may change, list the
modules that the study may name. The product's own packages, Gymnasium and Keras are always allowed.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError

VARIABLE = "FINDER_ALLOW_MODULES"
"""Environment variable: modules or files that may be named in addition to those of a command, separated by commas."""

ALWAYS = ("agents", "finder", "studies", "gymnasium", "keras")
"""Packages that may always be named."""

_NEVER = ("finder.cli",)
"""Never allowed: the command line runs any code that its arguments name."""

BY_FLAG = "--allow-module {0} (or {1}={0}; in Python allow_modules)"
"""Advice on how to allow a module, by flag or argument; see `only_modules`."""

_ACTIVE = "FINDER_ONLY_MODULES"
"""Environment variable with the newest restriction of this process, as JSON: it applies in its child processes, and in
threads that have no restriction of their own."""

_own: contextvars.ContextVar[str | None] = contextvars.ContextVar("restriction")
"""The restriction of this thread, as JSON; None for none, unset if it was never restricted."""

_inherited = os.environ.get(_ACTIVE)
"""The restriction of this whole process, as JSON; see `restrict_process`."""

_applied: dict[object, str] = {}
"""Block -> its restriction, of the present blocks of all threads, newest last."""

_lock = threading.Lock()
"""Guards `_applied` and its environment variable."""

AGENT_PREFIXES = ("airl", "bc", "gail", "rewarded")
"""Prefixes of agents' names: ``"airl-ppo"`` and ``"bc-airl-my.py:Mine"`` have a reward that AIRL learns."""

_PLACE = re.compile(
    rf"(?:^|(?<=[\s=\"',\[]))((?i:(?:{'|'.join(AGENT_PREFIXES)})-)*)([A-Za-z_][\w.]*|[^:\n]*\.py):[A-Za-z_][\w.-]*"
)
"""Pattern of names in text: ``module:Class``, and the beginning of ``file.py:Class:scale=2``."""


def modules_of_environment() -> tuple[str, ...]:
    """Return the modules that `FINDER_ALLOW_MODULES` lists."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


@contextlib.contextmanager
def only_modules(
    names: Iterable[str],
    namer: str = "the study",
    because: str = "others may write to its storage",
    how: str = BY_FLAG,
) -> Iterator[None]:
    """Allow text to name only these modules, in this thread and in processes and threads started inside the block.

    Several threads may have blocks at the same time, each with its own modules.

    Args:
        names: Modules with their submodules (``"mine"`` includes ``"mine.robots"``), files (``"robots.py"``), or one
            attribute of either (``"mine:Arm"``).
        namer: Origin of the text, for errors.
        because: Reason why the origin is not trusted, for errors.
        how: Advice on how to allow another module, for errors: text with ``{0}`` for the module and ``{1}`` for the
            environment variable.
    """
    own = [*names, *modules_of_environment()]
    with restricted(json.dumps({"own": own, "namer": namer, "because": because, "how": how})):
        yield


def restriction() -> str | None:
    """Return the active restriction, for processes that do not inherit this environment; see `restricted`."""
    return _own.get(os.environ.get(_ACTIVE))


def restrict_process(active: str | None) -> None:
    """Apply a restriction to this whole process, in place of the one that it has inherited.

    For children of a fork server, which has the environment of an earlier time. Call it before any block.

    Args:
        active: Result of `restriction` in the process that starts this one.
    """
    global _inherited  # noqa: PLW0603 - that of the process
    _inherited = active
    _set_variable(active)


def environment_variables() -> dict[str, str]:
    """Return the environment of this process for a child process that has the active restriction."""
    others = {name: value for name, value in os.environ.items() if name != _ACTIVE}
    active = restriction()
    return others if active is None else {**others, _ACTIVE: active}


@contextlib.contextmanager
def restricted(active: str | None) -> Iterator[None]:
    """Apply the restriction of another process in this block.

    Args:
        active: Result of `restriction` in the other process.
    """
    own = _own.set(active)
    try:
        with contextlib.nullcontext() if active is None else _applied_to_others(active):
            yield
    finally:
        _own.reset(own)


@contextlib.contextmanager
def _applied_to_others(active: str) -> Iterator[None]:
    """Apply a restriction to child processes, and to threads that have none of their own, in this block."""
    block = object()
    with _lock:
        _applied[block] = os.environ[_ACTIVE] = active
    try:
        yield
    finally:
        with _lock:
            del _applied[block]
            _set_variable(next(reversed(_applied.values()), _inherited))


def _set_variable(active: str | None) -> None:
    if active is None:
        os.environ.pop(_ACTIVE, None)
    else:
        os.environ[_ACTIVE] = active


def restrict_to_names(path: Path, names: Iterable[str], *, trusted: bool) -> contextlib.AbstractContextManager[None]:
    """Return a block in which text of a file may name only these modules, or any module if the file is trusted.

    Args:
        path: The file.
        names: See `only_modules`.
        trusted: Whether the file is signed by this user or marked as trusted.
    """
    if trusted:
        return contextlib.nullcontext()
    return only_modules(names, str(path), "it was not written here by you")


def check_module(name: str) -> None:
    """Refuse a module or a file that text may not name.

    Raises:
        ConfigurationError: The module is not allowed; the message names the flag that allows it.
    """
    active = _active()
    if active is None or _is_own(name, active) or (_is_always_allowed(name) and not _is_never_allowed(name)):
        return
    if any(_matches(name, each.rpartition(":")[0]) for each in active["own"]):  # some of its attributes are allowed
        return
    raise _not_allowed_error(f"code in {name!r}", name, active)


def check_found(path: str, found: Any, kind: type | None = None) -> None:
    """Refuse an object that an allowed module imported from a forbidden one, or that is not of class `kind`.

    Only classes of Finder's own packages, Gymnasium and Keras may be named: their functions, called with arguments from
    a study, could run arbitrary code.

    Args:
        path: The text that names the object.
        found: The object.
        kind: Required base class, None for any. Defaults to None.

    Raises:
        ConfigurationError: See `check_module`.
    """
    active, named = _active(), path.rpartition(":")[0]
    if active is None or any(_is_place(path, each) for each in active["own"]):
        return
    home = getattr(found, "__module__", None) or getattr(found, "__name__", None) or named
    if _is_own(named, active):
        if not named.endswith(".py"):  # everything in an allowed file is allowed, its imports included
            check_module(str(home))
        return
    if not named.endswith(".py"):  # whose module has a name that nobody knows
        check_module(str(home))
    if not (_is_always_allowed(named) and isinstance(found, type) and issubclass(found, kind or object)):
        raise _not_allowed_error(f"code in {path!r}", path, active)


def check_config(config: Any) -> None:
    """Refuse the config of a Keras object that names a forbidden module at any depth.

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


def places_in(*values: Any) -> set[str]:
    """Return the places that values name, as ``"module:name"``: names in a user's own command or call are allowed.

    Args:
        *values: Texts, classes and functions, also in mappings, lists and records.
    """
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            for match in _PLACE.finditer(value):
                found |= {match.group(0), match.group(0).removeprefix(match.group(1))}
        elif isinstance(value, Mapping):
            if isinstance(value.get("module"), str):
                found.add(f"{value['module']}:{value.get('class_name')}")
            found |= places_in(*value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            found |= places_in(*value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            found |= places_in(*(getattr(value, each.name) for each in dataclasses.fields(value)))
        elif hasattr(value, "__qualname__"):
            found.add(f"{value.__module__}:{value.__qualname__}")
    return found


def _active() -> dict[str, Any] | None:
    active = restriction()
    return None if active is None else json.loads(active)


def _is_own(name: str, active: Mapping[str, Any]) -> bool:
    """Return whether all of a module or a file is allowed."""
    return bool(name) and not _is_never_allowed(name) and any(_is_in(name, each) for each in active["own"])


def _not_allowed_error(what: str, name: str, active: Mapping[str, Any]) -> ConfigurationError:
    how = active["how"].format(name, VARIABLE)
    return ConfigurationError(
        f"{active['namer']} names {what}, and {active['because']}. If you trust that code, allow it: {how}."
    )


def _is_place(path: str, allowed: str) -> bool:
    module, colon, name = allowed.rpartition(":")
    return bool(colon) and _matches(path.rpartition(":")[0], module) and path.rpartition(":")[2] == name


def _is_always_allowed(name: str) -> bool:
    return any(_is_in(name, each) for each in ALWAYS)


def _is_never_allowed(name: str) -> bool:
    return any(_is_in(name, each) for each in _NEVER)


def _is_in(name: str, allowed: str) -> bool:
    return _matches(name, allowed) or (bool(allowed) and name.startswith(f"{allowed}."))


def _matches(name: str, allowed: str) -> bool:
    if name.endswith(".py"):
        return allowed.endswith(".py") and Path(name).resolve() == Path(allowed).resolve()
    return name == allowed
