"""Registry of algorithms by name; each is imported on first use."""

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
from agents.trust.allowed_modules import AGENT_PREFIXES
from agents.trust.loading import file_of, loaded

ALGORITHMS = {
    "a2c": "agents.algorithms.a2c:A2C",
    "acer": "agents.algorithms.acer:ACER",
    "bc": "agents.algorithms.imitation.bc:BC",
    "ddpg": "agents.algorithms.ddpg:DDPG",
    "dqn": "agents.algorithms.dqn:DQN",
    "maddpg": "agents.algorithms.multi_agent.maddpg:MADDPG",
    "mappo": "agents.algorithms.multi_agent.mappo:MAPPO",
    "ppo": "agents.algorithms.ppo:PPO",
    "qmix": "agents.algorithms.multi_agent.qmix:QMIX",
    "rainbow": "agents.algorithms.rainbow:Rainbow",
    "sac": "agents.algorithms.sac:SAC",
    "td3": "agents.algorithms.td3:TD3",
    "trpo": "agents.algorithms.trpo:TRPO",
    "vdn": "agents.algorithms.multi_agent.vdn:VDN",
}
"""Name on the command line -> path of the class."""

SB3_PREFIX = "sb3:"
"""Prefix of algorithms of Stable-Baselines3 (`agents.libraries.stable_baselines3`)."""

MULTI_AGENT = ("maddpg", "mappo", "qmix", "vdn")
"""Those of the algorithms that train several agents in one environment."""

IMITATION = ("bc",)
"""Those of the algorithms that learn from demonstrations alone."""


_WITHOUT_LOSS = ("agents.contract.keras_agent", "agents.contract.torch_agent")
"""Modules of base classes that leave the loss to their subclasses."""


def import_all() -> None:
    """Import every algorithm, and thereby TensorFlow: for a process from which others are forked."""
    for path in ALGORITHMS.values():
        importlib.import_module(path.partition(":")[0])


def agent_class(agent: Any) -> type[Agent]:
    """Return the class of a name.

    Args:
        agent: A name of `ALGORITHMS`; a class; ``"module:Class"``; or ``"path/to/file.py:Class"``. (``"sb3:PPO"`` is
            a training function.)

    Raises:
        ConfigurationError: The name is unknown (the message gives the nearest names), or is not an agent.
    """
    found = resolve_agent(agent)
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise ConfigurationError(
            f"{agent!r} is not an agent: it must be a subclass of agents.Agent or agents.KerasAgent, or a training "
            "function, def train(run, ...)."
        )
    _check_methods(found)
    return found


def _check_methods(agent: type[Agent]) -> None:
    """Raise `ConfigurationError` for a class that lacks a method, or whose `act` takes other arguments."""
    missing = sorted(agent.__abstractmethods__)
    steps = [getattr(agent, name, None) for name in ("loss", "optimizer_steps", "update")]
    if all(getattr(step, "__module__", None) in _WITHOUT_LOSS for step in steps):
        missing.append("loss")
    if missing:
        methods = " and ".join(f"{name}()" for name in missing)
        raise ConfigurationError(
            f"The agent {agent.__name__} has no {methods}: define it as agents.Agent or agents.KerasAgent describes it."
        )
    act = inspect.getattr_static(agent, "act")
    if not inspect.isfunction(act):  # other callables are tried
        return
    try:
        inspect.signature(act).bind(None, None, False)
    except TypeError:
        raise ConfigurationError(
            f"{agent.__name__}.act{inspect.signature(act)} must take observations and whether to explore: "
            "act(self, observations, explore)."
        ) from None


def is_built_in(name: str) -> bool:
    """Return whether a name is one of `ALGORITHMS`, with prefixes or without."""
    return prefixes_of(name)[1].lower() in ALGORITHMS


def built_in_name(agent: Any) -> str | None:
    """Return the name of a class of `ALGORITHMS`, with prefixes or without; None for a user's own.

    Args:
        agent: As for `agent_class`.
    """
    found = agent_class(agent)
    prefix = vars(found).get("prefix")
    if prefix is not None:
        own = built_in_name(found.__bases__[-1])
        return own and f"{prefix}-{own}"
    place = f"{found.__module__}:{found.__qualname__}"
    return next((name for name, known in ALGORITHMS.items() if known == place), None)


def training_function(agent: Any) -> Callable[..., Any] | None:
    """Return the training function of a name, or None if it stands for something else; see `agents.contract.spec`.

    Args:
        agent: A function; or as for `agent_class`.

    Raises:
        ConfigurationError: The name is unknown.
    """
    found = resolve_agent(agent)
    is_one = inspect.isfunction(found) or inspect.ismethod(found) or isinstance(found, functools.partial)
    return found if is_one else None


def resolve_agent(agent: Any) -> Any:
    """Return the agent class or training function of a name; return any other value unchanged.

    Raises:
        ConfigurationError: The name is unknown (the message gives the nearest names).
    """
    if not isinstance(agent, str):
        return agent
    if agent.lower().startswith(SB3_PREFIX):
        library = importlib.import_module("agents.libraries.stable_baselines3")
        return library.training_function_of(agent)
    prefixes, rest = prefixes_of(agent)
    if prefixes:
        composed = importlib.import_module("agents.algorithms.imitation.composed")
        if rest.lower().startswith(SB3_PREFIX):
            raise ConfigurationError(f"{rest} cannot learn from demonstrations here: {agent!r} is not an agent.")
        return composed.with_prefixes(resolve_agent(rest), prefixes)
    return _load(ALGORITHMS.get(agent.lower(), agent))


def prefixes_of(name: str) -> tuple[tuple[str, ...], str]:
    """Split the name of an agent: ``"bc-airl-ppo"`` into ``("bc", "airl")`` and ``"ppo"``.

    The name of an existing file, such as ``"bc-mine.py:Agent"``, has no prefixes.
    """
    prefix, dash, rest = name.partition("-")
    file, colon, _ = name.rpartition(":")
    if not dash or prefix.lower() not in AGENT_PREFIXES or (colon and file.endswith(".py") and Path(file).is_file()):
        return (), name
    others, algorithm = prefixes_of(rest)
    return (prefix.lower(), *others), algorithm


def _load(path: str) -> Any:
    module_name, colon, _ = path.rpartition(":")
    if not colon and path.endswith(".py"):
        raise ConfigurationError(f"The agent {path!r} names no class: write {path}:Class.{_listed_classes(Path(path))}")
    if not colon:
        raise unknown_name("agent", path, ALGORITHMS)
    try:
        return loaded(path)
    except ConfigurationError as error:
        listed = _listed_classes(file_of(module_name)) if isinstance(error.__cause__, AttributeError) else ""
        raise ConfigurationError(f"The agent {path!r} cannot be loaded: {error}{listed}") from error


def _listed_classes(file: Path | None) -> str:
    """List the agents and training functions that a file defines, without running it; "" if it cannot be read."""
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
    listed = f" Agents in it: {', '.join(found)}." if found else ""
    listed += f" Training functions in it: {', '.join(functions)}." if functions else ""
    return listed or " There is no agent in it."
