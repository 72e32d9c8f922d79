"""Identities of classes and functions that are given in Python, which tell apart those of one name."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, NoneType
from typing import Any


def identity_of(value: Any) -> str:
    """Return a text that is the same in every process for the same class or function.

    It is empty for text, and for classes of this package, which are known by name.

    It is the module and the name. Where these do not identify it, as lambdas, functions in functions and cells of
    notebooks share one name, a digest of the code follows, which changes with the code and the version of Python. Of
    other objects it is that of their class.
    """
    if isinstance(value, str) or getattr(value, "__module__", "").startswith("agents."):
        return ""
    if isinstance(value, functools.partial):
        return f"{identity_of(value.func)} with arguments #{_digest(value.args, value.keywords)}"
    if not hasattr(value, "__qualname__"):
        return f"an object of {identity_of(type(value))}"
    module = _module_of(value)
    place = f"{module}:{value.__qualname__}"
    is_named = "<" not in value.__qualname__ and module != "__main__"
    return place if is_named else f"{place}#{_digest(value)}"


def _module_of(value: Any) -> str:
    """Return the name of the module of a class or a function; for a script that of its file, as others import it."""
    if value.__module__ != "__main__":
        return str(value.__module__)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return "__main__" if file is None else Path(file).stem


def _digest(*values: Any) -> str:
    parts = [part for value in values for part in _parts(value, frozenset())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _parts(value: Any, around: frozenset[int]) -> Iterator[str]:
    """Yield the parts of a value that its behaviour depends on, without addresses and places in a file.

    Args:
        value: The value.
        around: The objects that it is a part of, by `id`, which are not entered again.
    """
    if id(value) not in around:
        text, inside = _taken_apart(value)
        yield text
        for part in inside:
            yield from _parts(part, around | {id(value)})


@functools.singledispatch
def _taken_apart(value: Any) -> tuple[str, Iterable[Any]]:
    """Return a text for a value, and the values inside of it."""
    return f"a {type(value).__module__}.{type(value).__qualname__}", ()


@_taken_apart.register(str | bytes | int | float | complex | NoneType)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return repr(value), ()


@_taken_apart.register(list | tuple)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return f"{len(value)} values", value


@_taken_apart.register(set | frozenset)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return " ".join(sorted(map(repr, value))), ()


@_taken_apart.register(Mapping)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return f"{len(value)} entries", [part for entry in value.items() for part in entry]


@_taken_apart.register(CodeType)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return " ".join([value.co_code.hex(), *value.co_names]), value.co_consts


@_taken_apart.register(FunctionType)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return "function", (value.__code__, value.__defaults__, value.__kwdefaults__, *_contents(value))


@_taken_apart.register(MethodType | staticmethod | classmethod)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return "method", (value.__func__,)


@_taken_apart.register(property)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return "property", (value.fget, value.fset)


@_taken_apart.register(type)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    own = [(name, part) for name, part in vars(value).items() if callable(part) or not name.startswith("__")]
    return f"{value.__module__}:{value.__qualname__}", [part for entry in sorted(own, key=_name) for part in entry]


def _name(entry: tuple[str, Any]) -> str:
    return entry[0]


def _contents(function: FunctionType) -> Iterator[Any]:
    """Yield what a function has from the function around it."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents
