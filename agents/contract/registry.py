"""Algorithms by name, imported only when one is wanted."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.contract.agent import Agent
from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import file_of, loaded

ALGORITHMS = {
    "a2c": "agents.algorithms.a2c:A2C",
    "acer": "agents.algorithms.acer:ACER",
    "ddpg": "agents.algorithms.ddpg:DDPG",
    "dqn": "agents.algorithms.dqn:DQN",
    "ppo": "agents.algorithms.ppo:PPO",
    "rainbow": "agents.algorithms.rainbow:Rainbow",
    "sac": "agents.algorithms.sac:SAC",
    "td3": "agents.algorithms.td3:TD3",
    "trpo": "agents.algorithms.trpo:TRPO",
}
"""Name on the command line -> where the class is."""


def import_all() -> None:
    """Imports every algorithm, and with them TensorFlow: for a process from which others are forked."""
    for path in ALGORITHMS.values():
        importlib.import_module(path.partition(":")[0])


def agent_class(agent: Any) -> type[Agent]:
    """The class that a name stands for.

    Args:
        agent: A name of `ALGORITHMS`; a class; ``"module:Class"``; or ``"path/to/file.py:Class"``.

    Raises:
        ConfigurationError: Nothing of that name (nearest names are given), or it is not an agent.
    """
    found = resolved(agent)
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise ConfigurationError(
            f"{agent!r} is not an agent: it must be a subclass of agents.Agent or agents.KerasAgent."
        )
    return found


def training_function(agent: Any) -> Callable[..., Any] | None:
    """The function that a name stands for, or None where it stands for something else; see `agents.contract.spec`.

    Args:
        agent: A function; or as for `agent_class`.

    Raises:
        ConfigurationError: Nothing of that name.
    """
    found = resolved(agent)
    is_one = inspect.isfunction(found) or inspect.ismethod(found) or isinstance(found, functools.partial)
    return found if is_one else None


def resolved(agent: Any) -> Any:
    """What a name stands for, an agent's class or a training function; anything else is itself.

    Raises:
        ConfigurationError: Nothing of that name (nearest names are given).
    """
    return _load(ALGORITHMS.get(agent.lower(), agent)) if isinstance(agent, str) else agent


def _load(path: str) -> Any:
    module_name, colon, _ = path.rpartition(":")
    if not colon and path.endswith(".py"):
        raise ConfigurationError(f"The agent {path!r} names no class: write {path}:Class.{_classes_told(Path(path))}")
    if not colon:
        raise unknown_name("agent", path, ALGORITHMS)
    try:
        return loaded(path)
    except ConfigurationError as error:
        told = _classes_told(file_of(module_name)) if isinstance(error.__cause__, AttributeError) else ""
        raise ConfigurationError(f"The agent {path!r} cannot be loaded: {error}{told}") from error


def _classes_told(file: Path | None) -> str:
    """Names the agents and training functions that a file defines, without running it; "" where it cannot be read."""
    try:
        tree = ast.parse("" if file is None else file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    found: list[str] = []
    functions: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and [argument.arg for argument in node.args.args[:1]] == ["run"]:
            functions.append(node.name)
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base.endswith("Agent") or base.lower() in ALGORITHMS or base in found for base in bases):
                found.append(node.name)
    told = f" Agents in it: {', '.join(found)}." if found else ""
    told += f" Training functions in it: {', '.join(functions)}." if functions else ""
    return told or " There is no agent in it."
