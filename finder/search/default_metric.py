"""The metric of a study where none is given, and whether agents can be judged by greedy episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agents.callbacks.callback import make_callbacks
from agents.contract.registry import agent_class
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import time_limit
from agents.errors import ConfigurationError

RETURN, GREEDY_RETURN = "return", "greedy-return"


def default_metric(
    agents: Sequence[AgentSpec], callbacks: Iterable[Any] | None = None, total_env_steps: int | None = None
) -> str:
    """Return the metric of a study where none is given: ``"return"``, or ``"greedy-return"`` if an agent asks for it.

    The exploration of an agent with `Agent.judged_greedily` adds noise that its greedy policy does not have.
    Hyperparameters that explore less then have better returns in training, without a better policy.

    Args:
        agents: The agents of the study, in one environment.
        callbacks: Callbacks of its runs. Defaults to None: none.
        total_env_steps: Budget of the whole search in environment steps, of which greedy episodes would take more.
            Defaults to None: none.

    Returns:
        ``"return"`` also with such a budget, and where greedy episodes cannot be played; see `check_evaluable`.
    """
    if total_env_steps is not None or not any(
        not isinstance(agent, FunctionSpec) and agent_class(agent.agent).judged_greedily for agent in agents
    ):
        return RETURN
    try:
        check_evaluable(GREEDY_RETURN, agents, agents[0].environment, callbacks)
    except ConfigurationError:
        return RETURN
    return GREEDY_RETURN


def check_evaluable(
    metric: str, agents: Iterable[AgentSpec], environment: EnvironmentSpec, callbacks: Iterable[Any] | None
) -> None:
    """Check that greedy episodes of all agents can be played, and that these end.

    Args:
        metric: The metric, for the message.
        agents: The agents.
        environment: Their environment.
        callbacks: Callbacks of their runs.

    Raises:
        ConfigurationError: They cannot, or may never end.
    """
    for agent in agents:
        agent.refuse_functions(
            f"the metric {metric} plays episodes with the agent at every report, and a training function has no "
            "agent that could act outside of it: judge by metric='return' (--metric return), or report the return of "
            "an evaluation of its own as a custom metric (custom:NAME)."
        )
    for callback in make_callbacks(tuple(callbacks or ())):
        if callback.changes_environments:
            raise ConfigurationError(
                f"the metric {metric} plays episodes in environments of their own, which the callback "
                f"{type(callback).__name__} does not change as it changes those of the training: judge by "
                "metric='return' (--metric return)."
            )
    if time_limit(environment) is None:
        raise ConfigurationError(
            f"the metric {metric} plays episodes without exploration, and in {environment.label}, which "
            "has no time limit, these may never end: give it one (--max-episode-steps N; in Python "
            "EnvironmentSpec(..., max_episode_steps=N))."
        )
