"""Pickling a trial for another process, with an error that names what cannot be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dill

from agents.errors import ConfigurationError
from finder.trial import TrialSpec

_DEPTH = 6


def dumps(trial: TrialSpec) -> bytes:
    """The trial as bytes. Classes and functions of a script or a notebook are pickled by value.

    Raises:
        ConfigurationError: Something in it cannot be pickled; the message names the attribute.
    """
    try:
        payload: bytes = dill.dumps(trial, recurse=True)
    except Exception as error:
        culprit = _culprit(trial.agent, "agent", _DEPTH, set()) or "agent"
        raise ConfigurationError(
            f"The agent cannot be sent to another process: {culprit} cannot be pickled ({error}). "
            f"Make it inside the agent's start() or build(), or use the inline executor."
        ) from error
    return payload


def _culprit(value: Any, path: str, depth: int, seen: set[int]) -> str | None:
    """The path of the innermost part of `value` that cannot be pickled, or None if all can."""
    if id(value) in seen or _pickles(value):
        return None
    seen.add(id(value))
    if depth > 0:
        for name, part in _parts(value):
            found = _culprit(part, f"{path}{name}", depth - 1, seen)
            if found:
                return found
    return f"{path} (a {type(value).__name__})"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of, with the words that lead there."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
        return
    if isinstance(value, list | tuple | set):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
        return
    for function in (value, getattr(value, "__init__", None)):
        closure = getattr(function, "__closure__", None)
        code = getattr(function, "__code__", None)
        if closure and code is not None:
            names = code.co_freevars
            yield from ((f".<closure>.{name}", cell.cell_contents) for name, cell in zip(names, closure, strict=True))
    if hasattr(value, "__dict__"):
        yield from ((f".{name}", item) for name, item in vars(value).items() if not name.startswith("__"))
    code = getattr(value, "__code__", None)
    if code is not None:
        known = value.__globals__
        yield from ((f".<global>.{name}", known[name]) for name in code.co_names if name in known)


def _pickles(value: Any) -> bool:
    try:
        dill.dumps(value, recurse=True)
    except Exception:  # noqa: BLE001 - see `dumps`
        return False
    return True
