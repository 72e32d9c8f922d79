"""Identities of classes and functions that are given in Python, which tell apart those of one name."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, NoneType
from typing import Any

_known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Identities as they were at first: what a function or a class contains may change while it is used."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def identity_of(value: Any) -> str:
    """Return a text that is the same in every process for the same class or function.

    It is empty for text, and for classes of this package, which are known by name. Otherwise it is the module and the
    name. Where these do not identify the object, as lambdas, functions in functions and cells of notebooks share one
    name, a digest of the code follows, which changes with the code and the version of Python; of other objects, and of
    partial functions, a digest of what they contain.
    """
    with contextlib.suppress(TypeError):  # it cannot be hashed, or not be referenced weakly
        if value not in _known:
            _known[value] = _identity_of(value)
        return _known[value]
    return _identity_of(value)


def _identity_of(value: Any) -> str:
    if isinstance(value, str) or (getattr(value, "__module__", None) or "").startswith("agents."):
        return ""
    if isinstance(value, functools.partial):
        return f"{identity_of(value.func)} with arguments #{_digest(value.args, value.keywords)}"
    if not hasattr(value, "__qualname__"):
        return f"an object of {identity_of(type(value))} #{_digest(value)}"
    module = _module_of(value)
    place = f"{module}:{value.__qualname__}"
    is_named = "<" not in value.__qualname__ and module != "__main__"
    return place if is_named else f"{place}#{_digest(value)}"


def _module_of(value: Any) -> str:
    """Return the name of the module of a class or a function; for a script that of its file, as others import it."""
    if value.__module__ != "__main__":
        return str(value.__module__)
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None:
        return "__main__"
    path = Path(file).resolve()
    names = [path.parent.name if path.stem == "__main__" else path.stem]
    folder = path.parent.parent if path.stem == "__main__" else path.parent
    while (folder / "__init__.py").exists():
        names.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(names))


def _digest(*values: Any) -> str:
    """Return a digest of the parts of values that their behaviour depends on, without addresses and places in files."""
    seen: dict[int, int] = {}
    try:
        parts = [part for value in values for part in _parts(value, seen)]
    except RecursionError:
        parts = ["nested too deeply"]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _parts(value: Any, seen: dict[int, int]) -> Iterator[str]:
    """Yield the parts of a value.

    Args:
        value: The value.
        seen: `id` of objects with parts that were entered before -> their order.
    """
    text, inside = _taken_apart(value)
    if inside and id(value) in seen:
        yield f"object {seen[id(value)]}"
        return
    yield text
    if inside:
        seen[id(value)] = len(seen)
        for part in inside:
            yield from _parts(part, seen)


@functools.singledispatch
def _taken_apart(value: Any) -> tuple[str, Iterable[Any]]:
    """Return a text for a value, and the values inside of it."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return f"{kind} {_ADDRESS.sub('', repr(value))}", ()
    except Exception:  # noqa: BLE001 - a class of the user may raise anything
        return kind, ()


@_taken_apart.register(str | bytes | int | float | complex | NoneType)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return repr(value), ()


@_taken_apart.register(list | tuple)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return f"{len(value)} values", value


@_taken_apart.register(set | frozenset)
def _(value: Any) -> tuple[str, Iterable[Any]]:
    return " ".join(["set", *sorted(map(_digest, value))]), ()


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
    own = {name: part for name, part in vars(value).items() if callable(part) or not name.startswith("__")}
    return f"{value.__module__}:{value.__qualname__}", [part for name in sorted(own) for part in (name, own[name])]


def _contents(function: FunctionType) -> Iterator[Any]:
    """Yield what a function has from the function around it."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents
