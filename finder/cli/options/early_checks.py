"""Checks of flags that need no TensorFlow, whose import takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from finder.cli.options.parameters import SearchOptions

_CHECKED = (
    "horizon", "metric", "executor", "n_jobs", "population", "seeds", "confirm", "confirm_seeds",
    "confirm_env_steps", "seed", "checkpoint_seconds", "hang_seconds",
)  # fmt: skip
"""Arguments of a search, beside its budgets, that mean the same whatever the agents are."""


def check_early(options: SearchOptions, *agents: str) -> None:
    """Check the names of agents and of the environment, the budgets, and the numbers of a search.

    Everything is checked again with the agents themselves, which need TensorFlow.

    Args:
        options: The flags of the search.
        *agents: The agents.

    Raises:
        ConfigurationError: A name does not exist.
        StudyError: A number is out of range, or budgets contradict each other.
    """
    from studies.spec.fields import BUDGET_FIELDS
    from studies.spec.scheduler_names import check_pruner_name
    from studies.spec.spec import StudySpec

    check_names(options.env, *agents)
    if options.pruner is not None:
        check_pruner_name(options.pruner)
    given = options.finder_arguments(None)
    known = {name: given[name] for name in (*BUDGET_FIELDS, *_CHECKED) if name in given}
    if not known.keys() & BUDGET_FIELDS:
        known["env_steps"] = 1  # a default that fits all others
    StudySpec(name="flags", agents=("agent",), env=options.env, **known)


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
