"""Reading a hyperparameter of an agent: one way, which is right wherever it is read."""

from __future__ import annotations

from typing import Any, Protocol

from agents.backend.tensorflow import tf
from agents.config.agent_config import AgentConfig
from agents.updates.mutable import Live, is_traced


class Reads(Protocol):
    """Agents whose hyperparameters can be read."""

    config: AgentConfig
    live: Live

    def number(self, name: str) -> Any:
        """Return a mutable hyperparameter for NumPy code."""


class HyperparameterReader:
    """Hyperparameters by name, with the value that is right at the place where they are read.

    In TensorFlow functions (`loss`, `preprocess_minibatch`, `pre_update`, the losses of `optimizer_steps`, functions
    of your own), a mutable hyperparameter is a scalar variable, so that a later change has an effect. In NumPy code
    (`act`, `preprocess_batch`) it is a number; where a population acts for all of its members at once, it is an array
    [rows], which broadcasts against arrays whose last axis is that of the environments. Every other hyperparameter is
    the value of the config.

    Args:
        agent: The agent. Its config of the moment counts, also for a reader that was stored in `start`.
    """

    def __init__(self, agent: Reads) -> None:
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        """Return the value of a hyperparameter.

        Raises:
            AttributeError: The config has no hyperparameter of this name.
        """
        if name.startswith("_"):  # asked for by copy and pickle, before there is an agent
            raise AttributeError(name)
        agent = self._agent
        if is_traced(agent.config) or not tf.executing_eagerly():
            return getattr(agent.live, name) if name in agent.live else getattr(agent.config, name)
        differs = name in agent.live or name == "learning_rate"  # between members of a population
        return agent.number(name) if differs else getattr(agent.config, name)
