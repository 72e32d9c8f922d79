"""Start an agent from the weights of another one; differences between networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.contract.agent import Agent
from agents.contract.restoring import restoring
from agents.errors import ConfigurationError


def start_from(agent: Agent, state: Mapping[str, Any]) -> None:
    """Set the networks of a fresh agent, and their other state (normalizer, progress of exploration), from a state.

    The optimizer, counters and generators stay fresh.

    Raises:
        ConfigurationError: The state belongs to another structure.
    """
    with restoring():
        own = agent.get_state()
    try:
        agent.set_state({**own, "networks": state["networks"], "extra": state["extra"], "fresh": False})
    except (KeyError, ValueError) as error:
        reason = difference_of_networks(state.get("networks", {}), own.get("networks", {})) or str(error)
        raise ConfigurationError(
            f"The {type(agent).__name__} cannot start from the given weights, because they were trained with another "
            f"algorithm, environment or other hyperparameters ({reason}): use the same ones, or start from new weights."
        ) from error
    agent.restart_optimizers()
    agent.restart(None)  # running episodes were those of the other agent


def difference_of_networks(stored: Mapping[str, Sequence[Any]], present: Mapping[str, Sequence[Any]]) -> str:
    """Describe the difference between networks of a stored state and of an agent; empty if there is none.

    Agents without Keras networks may have no networks to compare.
    """
    if stored and present and sorted(stored) != sorted(present):
        return f"they are of the networks {', '.join(sorted(stored))}; this agent has {', '.join(sorted(present))}"
    for name in sorted({*stored} & {*present}):
        shapes = [[list(np.shape(array)) for array in arrays] for arrays in (stored[name], present[name])]
        if shapes[0] != shapes[1]:
            return f"their network {name} has weights of the shapes {shapes[0]}, this agent's has {shapes[1]}"
    return ""
