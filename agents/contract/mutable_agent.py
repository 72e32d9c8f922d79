"""Mutable parts of a Keras agent: learning rates, mutable hyperparameters, numbers of optimizers' rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras
from agents.backend.variables import one_name
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent
from agents.errors import ConfigurationError, unknown_name
from agents.updates.bound_optimizer import BoundOptimizer
from agents.updates.mutable import Live

Array = np.ndarray[Any, Any]


class MutableAgent(Agent):
    """Base class for agents whose mutable hyperparameters are variables.

    Attributes:
        live: The mutable hyperparameters of the config.
    """

    live: Live
    _bound: Mapping[str, BoundOptimizer]
    _optimizers: Mapping[str, Any]  # the Keras optimizers of `_bound`

    @property
    def bound_optimizers(self) -> Mapping[str, BoundOptimizer]:
        """The optimizers by name, with the weights that they update."""
        return self._bound

    @property
    def optimizers(self) -> Mapping[str, Any]:
        return self._optimizers

    def get_learning_rate(self, optimizer: str = "default") -> float:
        return float(keras.ops.convert_to_numpy(self._named_optimizer(optimizer).learning_rate))

    def set_learning_rate(self, learning_rate: float, optimizer: str | None = None) -> None:
        following = [name for name in self._optimizers if self.config.follows_learning_rate(name)]
        for name in following if optimizer is None else [optimizer]:
            named = self._named_optimizer(name)
            self._check_rate_is_a_number(name)
            named.learning_rate = self.optimizer_spec(name).with_rate(learning_rate).learning_rate

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        owner, _, argument = name.rpartition(".")
        changes = {name: value}
        if name in ("learning_rate", "optimizer.learning_rate"):  # of all that follow it, also with a rate of their own
            own = [key for key, override in self.config.optimizers.items() if "learning_rate" in override]
            changes |= {f"{key}.learning_rate": value for key in own if self.config.follows_learning_rate(key)}
        elif owner not in ("", "optimizer"):
            self._named_optimizer(owner)
        if name not in self._changeable(owner):
            raise ConfigurationError(
                f"{name!r} cannot change while a {type(self).__name__} trains; these can: "
                f"{', '.join(self._changeable(owner))}."
            )
        config = self.config.replace(changes)  # refuses a bad value before anything has changed
        self._require_same_structure(config, "change while it trains")
        if argument == "learning_rate":
            self.set_learning_rate(value, None if owner in ("", "optimizer") else owner)
        self.config = config
        self._assign_numbers()

    def _changeable(self, owner: str) -> list[str]:
        """Return the names that `set_hyperparameter` takes; of numbers of optimizers, those of `owner`."""
        named = list(self._optimizers) if owner in ("", "optimizer") else [owner]
        numbers = {
            f"{owner or 'optimizer'}.{number}" for name in named for number in self.optimizer_spec(name).numbers()
        }
        rates = ["learning_rate", *([f"{owner}.learning_rate"] if owner else [])]
        return [*rates, *self.config.live_values(), *sorted(numbers)]

    def _named_optimizer(self, name: str) -> Any:
        if name not in self._optimizers:
            raise unknown_name(f"optimizer of {type(self).__name__}", name, self._optimizers)
        return self._optimizers[name]

    def _check_rate_is_a_number(self, name: str) -> None:
        if isinstance(self.optimizer_spec(name).learning_rate, Mapping):
            raise ConfigurationError(
                f"The optimizer {name!r} follows a learning-rate schedule; give it a number to change its rate."
            )

    def _require_same_structure(self, other: AgentConfig, what: str) -> None:
        own, wanted = self.config.structure(), other.structure()
        differing = [name for name in own if own[name] != wanted[name]]
        if differing:
            changes = ", ".join(f"{name}={wanted[name]!r} (it has {own[name]!r})" for name in differing)
            raise ConfigurationError(f"This {type(self).__name__} cannot {what} to {changes}: build another one.")

    def _assign_numbers(self) -> None:
        """Assign the config's values to the mutable hyperparameters and to the numbers of the optimizers."""
        for name, value in self.config.live_values().items():
            self.live.assign(name, value)
        for name, bound in self._bound.items():
            bound.numbers.assign(self.optimizer_spec(name))

    @one_name()
    def restart_optimizers(self) -> None:
        """Set the optimizers to the states of new ones for the present weights.

        The states of some (schedule-free AdamW) contain the weights that they began with.
        """
        for name, bound in self._bound.items():
            weights = [keras.Variable(keras.ops.convert_to_numpy(weight)) for weight in bound.weights]
            bound.reset(self.optimizer_spec(name), weights)

    def start(self) -> None:
        """Make all other parts of the agent (exploration policy, normalizer), when it is built and at each reset."""

    def extra_state(self) -> dict[str, Any]:
        """Return state that `start` made and that training changes; it is part of `get_state`."""
        return self.running_state()

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `extra_state`."""
        self.set_running_state(state)

    def running_state(self) -> dict[str, Any]:
        """Return the part of `extra_state` that is not learned: that of exploration and of running episodes.

        A member of a population that becomes a copy of another one keeps its own. `act` changes no other part.
        """
        return {}

    def set_running_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `running_state`; other entries are ignored."""

    def renumber(self, config: AgentConfig) -> None:
        """Set the mutable hyperparameters, learning rates and exploration of a config of the same structure.

        Exploration starts anew; weights and optimizer slots do not change.
        """
        self.config = config
        self._assign_numbers()
        for name, optimizer in self.optimizers.items():
            rate = self.optimizer_spec(name).learning_rate
            if not isinstance(rate, Mapping):
                optimizer.learning_rate = rate
        self.refresh()
        self.start()

    def acting_numbers(self) -> list[Array]:
        """Return the mutable hyperparameters, for copies of the agent in other processes: one array, or none."""
        values = self.config.live_values()
        return [np.array(list(values.values()), np.float64)] if values else []

    def set_acting_numbers(self, state: Sequence[Array]) -> Sequence[Array]:
        """Set the mutable hyperparameters from the end of an acting state, and return the rest of it."""
        present = self.config.live_values()
        if not present:
            return state
        *rest, values = state
        given = dict(zip(present, values.tolist(), strict=True))
        if given != present:
            self.config = self.config.replace({name: given[name] for name in given if given[name] != present[name]})
            self._assign_numbers()
        return rest
