"""What a user wrote, by where it is: ``"module:name"`` or ``"path/to/file.py:name"``; and what it is called."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError
from agents.trust.allowed_modules import check_found, check_module

FILE_MODULE = "agent_file_"
"""What the names of modules begin with that were made of a user's file."""


class MissingModuleError(ConfigurationError):
    """There is no module, or no file, of a name."""


def loaded(path: str, kind: type | None = None) -> Any:
    """Returns what is there.

    Args:
        path: ``"module:name"`` or ``"path/to/file.py:name"``.
        kind: Base class of what somebody else's text may name of Finder's own; see `agents.trust.allowed_modules`.

    Raises:
        ConfigurationError: The module or the file cannot be imported, or has nothing of that name (then its cause is
            an `AttributeError`).
    """
    module_name, _, name = path.rpartition(":")
    if not module_name:
        raise ConfigurationError("write module:name, or file.py:name.")
    module = module_of(module_name)
    try:
        found = getattr(module, name)
    except AttributeError as error:
        raise ConfigurationError(f"{module_name} has nothing called {name!r}.") from error
    check_found(path, found, kind)
    return found


def module_of(name: str) -> Any:
    """Imports a module by its name, or runs a file (``"path/to/file.py"``) as one, once.

    Raises:
        MissingModuleError: There is none.
        ConfigurationError: It may not be named here (see `agents.trust.allowed_modules`), or it cannot be imported:
            whatever it raises meanwhile, `SystemExit` too, is the cause.
    """
    check_module(name)
    try:
        return _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (KeyboardInterrupt, ConfigurationError):
        raise
    except FileNotFoundError as error:
        if error.filename is None:  # of `_load_file`
            raise MissingModuleError(str(error)) from error
        raise ConfigurationError(_why_not(name, error)) from error
    except ModuleNotFoundError as error:
        if not name.endswith(".py") and name.startswith(error.name or " "):
            raise MissingModuleError(str(error)) from error  # it is not there itself
        raise ConfigurationError(_why_not(name, error)) from error
    except BaseException as error:  # whatever code of others raises
        raise ConfigurationError(_why_not(name, error)) from error


def ended_by(error: SystemExit) -> str:
    """Returns where code of the user's called `sys.exit`, and what to do."""
    place = traceback.extract_tb(error.__traceback__)
    where = f"{place[-1].filename}, line {place[-1].lineno}, " if place else "Code of yours "
    return f"{where}ended the process ({type(error).__name__}: {error.code}): raise an error there instead, or return."


def _why_not(name: str, error: BaseException) -> str:
    """Returns why a module or a file cannot be imported: what it raised, and in which line of it."""
    what = name if name.endswith(".py") else f"module {name!r}"
    if isinstance(error, SyntaxError):
        place = (
            f"line {error.lineno}" if error.filename and Path(error.filename).name == Path(name).name else str(error)
        )
        return f"{what} is no Python that can be read: {type(error).__name__}: {error.msg} ({place}). Correct it."
    file = file_of(name)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if file is not None and Path(frame.filename).name == file.name
    ]
    where = f" (line {lines[-1]})" if lines else ""
    if isinstance(error, SystemExit):
        return (
            f"{what} calls sys.exit({error.code!r}) while it is imported{where}: put what is not a definition behind "
            '`if __name__ == "__main__":`.'
        )
    told = " ".join(str(error).split())
    return f"{what} cannot be imported: {type(error).__name__}{': ' * bool(told)}{told}{where}. Correct it."


def name_of(value: Any) -> str:
    """What tells an object that is no JSON from others, in every process: the name of a function or of a class."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def place_of(value: Any) -> str:
    """Where something is, as `loaded` takes it: of a class or a function ``"module:name"``, of a text the text.

    Raises:
        ConfigurationError: It has no name of its own (a lambda, say), which tells it from others.
    """
    if not isinstance(value, str) and ("<lambda>" in name_of(value) or not hasattr(value, "__qualname__")):
        raise ConfigurationError(f"{value!r} has no name that tells it from others: give a class, or write a function.")
    return value if isinstance(value, str) else f"{value.__module__}:{value.__qualname__}"


def file_of(module_name: str) -> Path | None:
    """The file of a module, or of a path to one, that was imported."""
    if module_name.endswith(".py"):
        return Path(module_name)
    path = getattr(sys.modules.get(module_name), "__file__", None)
    return None if path is None else Path(path)


def _load_file(path: Path) -> Any:
    """The file as a module, run once as imports are: two runs would make two classes, each strange to the other."""
    whole = path.resolve()
    name = f"{FILE_MODULE}{path.stem}_{zlib.crc32(str(whole).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, whole)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no Python file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
