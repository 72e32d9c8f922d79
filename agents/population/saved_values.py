"""The state of members as it is saved: optimizer slots weight by weight, however they are kept in memory.

So checkpoints do not depend on whether an optimizer updates its weights as one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.config.optimizers import variables_of
from agents.contract.keras_agent import KerasAgent

Array = np.ndarray[Any, Any]


def saved_values(agent: KerasAgent, values: Sequence[Array]) -> list[Array]:
    """Return values of the agent's `state_variables`, [P, ...] each, as they are saved."""
    begin = _n_network_variables(agent)
    saved = list(values[:begin])
    for bound in agent.bound_optimizers.values():
        end = begin + len(variables_of(bound.optimizer))
        saved, begin = saved + bound.by_weight(values[begin:end]), end
    return saved + list(values[begin:])


def loaded_values(agent: KerasAgent, saved: Sequence[Array]) -> list[Array]:
    """Return the values that `saved_values` was given, from those that it returned."""
    begin = _n_network_variables(agent)
    values = list(saved[:begin])
    for bound in agent.bound_optimizers.values():
        end = begin + bound.n_by_weight
        values, begin = values + bound.joined_by_weight(saved[begin:end]), end
    return values + list(saved[begin:])


def _n_network_variables(agent: KerasAgent) -> int:
    return len({id(variable) for network in agent.networks.values() for variable in network.variables})
