"""The memory and the time that a member of a population takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents import seeding
from agents.buffers import Transition
from agents.contract.keras_agent import KerasAgent

_COPIES_OF_STATE = 4
"""Number of copies of a member's state: stacks, input and output of the compiled update, and weights for acting."""


_STEP_SECONDS = 2e-5
"""Seconds of an environment step of one member without the update: acting, and stepping a simple environment."""

_OPERATIONS_PER_SECOND = 1e11
"""Floating-point operations of an update in a second of one core."""


def seconds_per_step(agent: KerasAgent) -> float:
    """Estimate the seconds that one core takes for an environment step of one member, with its share of the update.

    The estimate counts six operations for each weight, row, and position of a convolution: a forward pass, and the
    gradients of weights and inputs. It differs from measurements by up to a factor of two.
    """
    buffer = agent.make_buffer(agent.config.n_envs, seeding.generator(0, "time"))
    uses = sum(_uses_of_weights(layer) for network in agent.networks.values() for layer in network.layers)
    return _STEP_SECONDS + 6.0 * uses * buffer.rows_per_step / _OPERATIONS_PER_SECOND


def _uses_of_weights(layer: Any) -> int:
    """Return how often a row is multiplied by weights of a layer: at every position for a convolution."""
    shape = getattr(layer.output, "shape", ()) if layer.weights else ()
    positions = int(np.prod(shape[1:-1])) if len(shape) > 2 and None not in shape[1:-1] else 1
    return positions * sum(int(np.prod(weight.shape)) for weight in layer.weights)


def bytes_of_member(agent: KerasAgent) -> int:
    """Estimate the bytes of one member of this agent with a full buffer; nothing is allocated."""
    state = sum(
        int(np.prod(variable.shape)) * np.dtype(str(variable.dtype)).itemsize for variable in agent.state_variables()
    )
    n_envs = agent.config.n_envs
    buffer = agent.make_buffer(n_envs, seeding.generator(0, "memory"))
    return _COPIES_OF_STATE * state + buffer.bytes_when_full(_a_transition(agent, n_envs))


def _a_transition(agent: KerasAgent, n_envs: int) -> Transition:
    """Return a transition with the shapes and dtypes of the agent's spaces."""
    observations = np.zeros((n_envs, *agent.observation_space.shape), agent.observation_space.dtype)
    actions = np.zeros((n_envs, *(agent.action_space.shape or ())), agent.action_space.dtype)
    flags = np.zeros(n_envs, bool)
    return Transition(observations, actions, np.zeros(n_envs, np.float32), observations, flags, flags)
