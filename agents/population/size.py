"""The memory that a member of a population takes."""

from __future__ import annotations

import numpy as np

from agents import seeding
from agents.buffers import Transition
from agents.contract.keras_agent import KerasAgent

_COPIES_OF_STATE = 4
"""Number of copies of a member's state: stacks, input and output of the compiled update, and weights for acting."""


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
