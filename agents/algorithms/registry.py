"""Algorithms by name, imported only when one is wanted."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from agents.agent import Agent
from agents.errors import ConfigurationError, unknown_name
from agents.loading import file_of, loaded

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


def agent_class(agent: str | type[Agent]) -> type[Agent]:
    """The class that a name stands for.

    Args:
        agent: A name of `ALGORITHMS`; a class; ``"module:Class"``; or ``"path/to/file.py:Class"``.

    Raises:
        ConfigurationError: Nothing of that name (nearest names are given), or it is not an agent.
    """
    found = _load(ALGORITHMS.get(agent.lower(), agent)) if isinstance(agent, str) else agent
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise ConfigurationError(
            f"{agent!r} is not an agent: it must be a subclass of agents.Agent or agents.KerasAgent."
        )
    return found


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
    """Names the agents that a file defines, without running it; "" where it cannot be read or has none."""
    try:
        tree = ast.parse("" if file is None else file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base.endswith("Agent") or base.lower() in ALGORITHMS or base in found for base in bases):
                found.append(node.name)
    return f" Agents in it: {', '.join(found)}." if found else " There is no agent in it."
