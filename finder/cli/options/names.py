"""Checks of the names of agents and environments that need no TensorFlow, whose import takes seconds."""

from __future__ import annotations

from agents.errors import ConfigurationError


def check_names(env: str, *agents: str) -> None:
    """Raise `ConfigurationError` for names that do not exist; those of modules and files are checked later.

    Args:
        env: The environment.
        *agents: The agents.
    """
    from agents.contract.registry import is_built_in, prefixes_of, resolve_agent
    from agents.environments.places import check_environment_id

    for agent in agents:
        parts = agent.split(",")
        if len(parts) > 1 and all(map(is_built_in, parts)):
            raise ConfigurationError(
                f"AGENT is {agent!r}: give one agent, or compare them: finder agents {' '.join(parts)} --env {env}."
            )
        if ":" not in agent and not is_built_in(agent):
            resolve_agent(prefixes_of(agent)[1])
    if not env:
        raise ConfigurationError(f"--env is {env!r}: give a Gymnasium environment, such as CartPole-v1.")
    if ":" not in env:
        check_environment_id(env)
