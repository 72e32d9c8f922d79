"""Algorithms by name, imported only when one is wanted."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import Any

from agents.agent import Agent
from agents.errors import ConfigurationError, unknown_name

ALGORITHMS = {
    "a2c": "agents.algorithms.a2c:A2C",
    "acer": "agents.algorithms.acer:ACER",
    "ddpg": "agents.algorithms.ddpg:DDPG",
    "dqn": "agents.algorithms.dqn:DQN",
    "ppo": "agents.algorithms.ppo:PPO",
    "sac": "agents.algorithms.sac:SAC",
    "td3": "agents.algorithms.td3:TD3",
    "trpo": "agents.algorithms.trpo:TRPO",
}
"""Name on the command line -> where the class is."""


def import_all() -> None:
    """Imports every algorithm, and with them TensorFlow: for a process from which others are forked."""
    for path in ALGORITHMS.values():
        importlib.import_module(path.partition(":")[0])


FILE_MODULE = "agent_file_"
"""What the names of modules begin with that were made of a user's file."""


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
    module_name, colon, class_name = path.rpartition(":")
    if not colon and path.endswith(".py"):
        raise ConfigurationError(f"The agent {path!r} names no class: write {path}:Class.{_classes_told(Path(path))}")
    if not colon:
        raise unknown_name("agent", path, ALGORITHMS)
    try:
        module = _load_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
    except (ImportError, FileNotFoundError) as error:
        raise ConfigurationError(f"The agent {path!r} cannot be loaded: {error}") from error
    if not hasattr(module, class_name):
        told = _classes_told(Path(module.__file__)) if module.__file__ else ""
        raise ConfigurationError(
            f"The agent {path!r} cannot be loaded: {module_name} has no class {class_name!r}.{told}"
        )
    return getattr(module, class_name)


def _classes_told(file: Path) -> str:
    """Names the agents that a file defines, without running it; "" where it cannot be read or has none."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base.endswith("Agent") or base.lower() in ALGORITHMS or base in found for base in bases):
                found.append(node.name)
    return f" Agents in it: {', '.join(found)}." if found else " There is no agent in it."


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
