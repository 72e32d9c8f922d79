"""Pickling of agents and their data for other processes, with an error that names the attribute that fails.

It uses cloudpickle, not the dill of `multiprocess`: dill 0.4 sends a class of a script without its base class if a base
further up is generic. Every Gymnasium environment and wrapper is such a class, and a wrapper without its base silently
does nothing.
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
from agents.contract.registry import resolve_agent
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError
from agents.processes.module_path import search_first
from agents.trust.loading import FILE_MODULE

_DEPTH = 6


def spec_of(agent: Any, environment: Any = None) -> AgentSpec:
    """Return the specification of a built agent, without its weights.

    Args:
        agent: The agent.
        environment: Its environment, if the agent was made without one.
    """
    return AgentSpec(type(agent), agent.environment or environment, agent.config)


def pickled(spec: AgentSpec, value: Any) -> bytes:
    """Pickle a value that belongs to an agent. Classes and functions of a script or a notebook are pickled by value.

    Args:
        spec: The agent.
        value: For example a trial of the agent.

    Raises:
        ConfigurationError: A part of the value cannot be pickled; the message names the attribute.
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
    """Unpickle a result of `pickled` in another process, with the module search path of the first process."""
    label, optimizers, path, packed = cloudpickle.loads(payload)
    search_first(path)
    if ".py:" in label:
        resolve_agent(label)  # runs the user's file, whose classes the value refers to
    for name, optimizer_class in optimizers.items():
        setattr(sys.modules["__main__"], name, optimizer_class)
    return cloudpickle.loads(packed)


@contextlib.contextmanager
def _by_value(agent: Any) -> Iterator[None]:
    """Pickle classes and functions of users' files by value where no file names them: they cannot be imported.

    The agent may be combined with such a class (`agents.algorithms.imitation.composed`).
    """
    parts = agent.__mro__ if isinstance(agent, type) else (agent,)
    names = {getattr(part, "__module__", None) or "" for part in parts}
    modules = [sys.modules[name] for name in names if name.startswith(FILE_MODULE)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _own_optimizers(config: Config) -> dict[str, Any]:
    """Return the optimizer classes of the user's script: a config only names them, and a child has another script."""
    if not isinstance(config, AgentConfig):
        return {}
    names = [config.optimizer, *(override.get("optimizer") for override in config.optimizers.values())]
    specs = [OptimizerSpec.of(name) for name in names if name]
    return {spec.name.partition(":")[2]: spec.optimizer_class() for spec in specs if spec.name.startswith("__main__:")}


def _culprit(value: Any, path: str, depth: int, seen: set[int]) -> str | None:
    """Return the path of the innermost part of `value` that cannot be pickled, or None if all can."""
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
    """Yield the parts of an object, each with its path suffix."""
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
