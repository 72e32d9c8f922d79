"""Reading a hyperparameter of an agent: one way, which is right wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.config.agent_config import AgentConfig
from agents.updates.mutable import Live, is_traced


class HyperparameterReader:
    """Hyperparameters by name, with the value that is right at the place where they are read.

    In a hook that is traced into the compiled update (`loss`, `preprocess_minibatch`, `pre_update`, the losses of
    `optimizer_steps`), a mutable hyperparameter is a scalar variable, so that a later change has an effect. In NumPy
    code (`act`, `preprocess_batch`) it is a number; where a population acts for all of its members at once, it is an
    array [rows], which broadcasts against arrays whose last axis is that of the environments. Every other
    hyperparameter is the value of the config.

    Args:
        config: The config, as the present hook sees it.
        live: The mutable hyperparameters, as variables.
        number: Name -> value for NumPy code.
    """

    def __init__(self, config: AgentConfig, live: Live, number: Callable[[str], Any]) -> None:
        self._config, self._live, self._number = config, live, number

    def __getattr__(self, name: str) -> Any:
        if not is_traced(self._config):
            return self._number(name)
        return getattr(self._live, name) if name in self._live else getattr(self._config, name)
