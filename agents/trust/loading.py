"""Load user code by its place, ``"module:name"`` or ``"path/to/file.py:name"``, and name the place of an object."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

from agents.backend.silence import quiet_tensorflow
from agents.errors import ConfigurationError
from agents.trust.allowed_modules import check_found, check_module

FILE_MODULE = "agent_file_"
"""Prefix of the names of modules that were loaded from a user's file."""


class MissingModuleError(ConfigurationError):
    """No module or file of this name exists."""


def loaded(path: str, kind: type | None = None) -> Any:
    """Return the object at a place.

    Args:
        path: ``"module:name"`` or ``"path/to/file.py:name"``.
        kind: Required base class for objects of Finder's own packages; see `agents.trust.allowed_modules`.

    Raises:
        ConfigurationError: The module or the file cannot be imported, or has no attribute of that name (the cause is
            then an `AttributeError`).
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
    """Import a module by its name, or run a file (``"path/to/file.py"``) once as a module.

    Raises:
        MissingModuleError: No such module or file exists.
        ConfigurationError: The module is not allowed (see `agents.trust.allowed_modules`) or cannot be imported. The
            cause is the error that the import raised, `SystemExit` included.
    """
    check_module(name)
    try:
        with quiet_tensorflow():
            return _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (KeyboardInterrupt, ConfigurationError):
        raise
    except FileNotFoundError as error:
        if error.filename is None:  # of `_load_file`
            raise MissingModuleError(str(error)) from error
        raise ConfigurationError(_import_failure(name, error)) from error
    except ModuleNotFoundError as error:
        if not name.endswith(".py") and f"{name}.".startswith(f"{error.name or ' '}."):
            raise MissingModuleError(str(error)) from error  # the module itself is missing, not one of its imports
        raise ConfigurationError(_import_failure(name, error)) from error
    except BaseException as error:  # user code may raise anything
        raise ConfigurationError(_import_failure(name, error)) from error


def ended_by(error: SystemExit) -> str:
    """Return where user code called `sys.exit`, and advice on how to fix it."""
    place = traceback.extract_tb(error.__traceback__)
    where = f"{place[-1].filename}, line {place[-1].lineno}, " if place else "Code of yours "
    return f"{where}ended the process ({type(error).__name__}: {error.code}): raise an error there instead, or return."


def _import_failure(name: str, error: BaseException) -> str:
    """Return why a module or a file cannot be imported: the error, and the line that raised it."""
    what = name if name.endswith(".py") else f"module {name!r}"
    if isinstance(error, SyntaxError):
        place = (
            f"line {error.lineno}" if error.filename and Path(error.filename).name == Path(name).name else str(error)
        )
        return f"{what} is not valid Python: {type(error).__name__}: {error.msg} ({place}). Correct it."
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
    message = " ".join(str(error).split())
    return f"{what} cannot be imported: {type(error).__name__}{': ' * bool(message)}{message}{where}. Correct it."


def innermost(function: Any) -> Any:
    """Return the function that a partial function wraps; any other object is returned unchanged."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(value: Any) -> str:
    """Return the name of a function or a class, or of the class of another object, for values that are not JSON."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def place_of(value: Any) -> str:
    """Return the place of a class or a function for `loaded`, ``"module:name"``; text is returned unchanged.

    Raises:
        ConfigurationError: The object has no name that identifies it (for example a lambda).
    """
    if not isinstance(value, str) and ("<lambda>" in name_of(value) or not hasattr(value, "__qualname__")):
        raise ConfigurationError(f"{value!r} has no name that identifies it: give a class, or define a function.")
    return value if isinstance(value, str) else f"{value.__module__}:{value.__qualname__}"


def file_of(module_name: str) -> Path | None:
    """Return the file of an imported module, or of a path."""
    if module_name.endswith(".py"):
        return Path(module_name)
    path = getattr(sys.modules.get(module_name), "__file__", None)
    return None if path is None else Path(path)


def _load_file(path: Path) -> Any:
    """Return the file as a module, run only once: a second run would create different classes of the same names."""
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
