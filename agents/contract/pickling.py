"""Agents and what belongs to them as bytes, for other processes, with an error that names what cannot be pickled.

With cloudpickle, not with the dill that `multiprocess` brings: dill 0.4 sends a class of a script without the base
class that it inherits from, where a base further up is generic. Every Gymnasium environment and wrapper is such a
class, and a wrapper that has lost its base does nothing, silently.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle

from agents.config.agent_config import AgentConfig
from agents.config.hyperparameters import Config
from agents.config.optimizers import OptimizerSpec
from agents.contract.registry import resolved
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError
from agents.processes.module_path import search_first
from agents.trust.loading import FILE_MODULE

_DEPTH = 6


def spec_of(agent: Any, environment: Any = None) -> AgentSpec:
    """The recipe of an agent that is built, without its weights.

    Args:
        agent: The agent.
        environment: What it is for, where it was made without one.
    """
    return AgentSpec(type(agent), agent.environment or environment, agent.config)


def pickled(spec: AgentSpec, value: Any) -> bytes:
    """A value that has to do with an agent as bytes. Classes and functions of a script or a notebook go by value.

    Args:
        spec: The agent.
        value: A trial of it, say.

    Raises:
        ConfigurationError: Something in it cannot be pickled; the message names the attribute.
    """
    try:
        with _by_value(spec.agent):
            packed = cloudpickle.dumps(value)
            return bytes(cloudpickle.dumps((spec.label, _own_optimizers(spec.config), list(sys.path), packed)))
    except Exception as error:
        culprit = _culprit(spec, "agent", _DEPTH, set()) or "agent"
        raise ConfigurationError(
            f"The agent cannot be sent to another process: {culprit} cannot be pickled ({error}). "
            f"Make it inside the agent's start() or build(), or train in this process (the inline executor, no pool)."
        ) from error


def unpickled(payload: bytes) -> Any:
    """What `pickled` made bytes of, in another process, which finds modules where the first one did."""
    label, optimizers, path, packed = cloudpickle.loads(payload)
    search_first(path)
    if ".py:" in label:
        resolved(label)  # runs the user's file, whose classes the value refers to
    for name, optimizer_class in optimizers.items():
        setattr(sys.modules["__main__"], name, optimizer_class)
    return cloudpickle.loads(packed)


@contextlib.contextmanager
def _by_value(agent: Any) -> Iterator[None]:
    """Has a class or function of a user's file go by value, where it is not named by the file: nobody can import it."""
    name = getattr(agent, "__module__", None) or ""
    if not name.startswith(FILE_MODULE):
        yield
        return
    cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[name])


def _own_optimizers(config: Config) -> dict[str, Any]:
    """Optimizer classes of the user's script: a config only names them, and another process has another script."""
    if not isinstance(config, AgentConfig):
        return {}
    names = [config.optimizer, *(override.get("optimizer") for override in config.optimizers.values())]
    specs = [OptimizerSpec.of(name) for name in names if name]
    return {spec.name.partition(":")[2]: spec.optimizer_class() for spec in specs if spec.name.startswith("__main__:")}


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
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever is raised there
        return False
    return True
