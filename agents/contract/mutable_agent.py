"""Base class for agents with networks of any library: learning rates, mutable hyperparameters, the state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from agents import seeding
from agents.backend.variables import digest_of
from agents.config.agent_config import AgentConfig
from agents.config.optimizers import OptimizerSpec
from agents.contract.agent import Agent
from agents.contract.hyperparameter_reader import HyperparameterReader
from agents.contract.restoring import restoring
from agents.contract.weights import difference_of_networks
from agents.errors import ConfigurationError, unknown_name
from agents.updates.mutable import Live

Array = np.ndarray[Any, Any]


class Numbers(Protocol):
    """The mutable numbers of an optimizer's rule."""

    def assign(self, spec: OptimizerSpec) -> None:
        """Set them to the values of a specification."""


class Bound(Protocol):
    """An optimizer and the weights that it updates."""

    @property
    def numbers(self) -> Numbers:
        """The mutable numbers of its rule."""

    def state(self) -> Any:
        """Return its state, as arrays and plain values."""

    def set_state(self, state: Any) -> None:
        """Restore a state of `state`."""


class MutableAgent(Agent):
    """Base class for agents with networks, some of whose hyperparameters may change, whatever the networks' library.

    Attributes:
        live: The mutable hyperparameters of the config.
    """

    live: Live
    _bound: Mapping[str, Bound]
    _optimizers: Mapping[str, Any]  # objects with a `learning_rate`
    _initial_digest: int

    @property
    def bound_optimizers(self) -> Mapping[str, Any]:
        """The optimizers by name, with the weights that they update."""
        return self._bound

    @property
    def optimizers(self) -> Mapping[str, Any]:
        return self._optimizers

    @property
    def hyperparameters(self) -> HyperparameterReader:
        """Hyperparameters by name: ``self.hyperparameters.gamma`` is right in every method."""
        return HyperparameterReader(self)

    def number(self, name: str) -> Any:
        """Return a mutable hyperparameter for NumPy code, outside of the loss: a number, or [rows] in a population.

        It broadcasts against arrays whose last axis is the axis of the environments.
        """
        return getattr(self.config, name)

    def get_learning_rate(self, optimizer: str = "default") -> float:
        return float(np.asarray(self._named_optimizer(optimizer).learning_rate))

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

    @abstractmethod
    def record_gradient_norms(self) -> None:
        """Record each optimizer's ``gradient_norm/NAME`` and ``clipped_gradient_norm/NAME`` as metrics of updates."""

    # State ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def network_values(self) -> dict[str, list[Array]]:
        """Return copies of all variables of each network, by its name."""

    @abstractmethod
    def assign_networks(self, values: Mapping[str, Sequence[Array]]) -> None:
        """Set all variables of the networks to values of `network_values`."""

    def count_gradient_steps(self, n: int) -> None:
        """Set the number of gradient steps so far."""
        self.gradient_steps = n

    @property
    def fresh(self) -> bool:
        """Return whether the agent is as built from its seed: never updated, no state set, no weights loaded."""
        return self._fresh and self._initial_digest == self._weights_digest()

    @fresh.setter
    def fresh(self, value: bool) -> None:
        self._fresh = value

    def _weights_digest(self) -> int:
        return digest_of([values for network in self.network_values().values() for values in network])

    def _restart_counters(self, seed: int) -> None:
        """Set generator and counters to those of an agent that is built from a seed."""
        self.count_gradient_steps(0)
        self.env_steps = 0
        self.rng = seeding.generator(seed, "exploration")

    def get_state(self) -> dict[str, Any]:
        return {
            "networks": self.network_values(),
            "optimizers": {name: bound.state() for name, bound in self._bound.items()},
            "config": self.config.to_dict(),
            "rng": self.rng.bit_generator.state,
            "seed": self.seed,
            "env_steps": self.env_steps,
            "gradient_steps": self.gradient_steps,
            "fresh": self.fresh,
            "extra": self.extra_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        # Compilation options belong to the machine, not to the state.
        config = type(self.config).from_dict(state["config"]).replace({"jit_compile": self.config.jit_compile})
        self._require_same_structure(config, "be restored")
        try:
            self.assign_networks(state["networks"])
        except (KeyError, ValueError, RuntimeError) as error:  # of zip, Keras and PyTorch
            difference = difference_of_networks(state["networks"], self.network_values())
            if not difference:
                raise
            raise ConfigurationError(
                f"The weights do not fit this {type(self).__name__}: {difference}. Restore its code, or train anew."
            ) from error
        for name, bound in self._bound.items():
            bound.set_state(state["optimizers"][name])
        self.config = config
        self._assign_numbers()
        self.rng.bit_generator.state = state["rng"]
        self.seed, self.env_steps = state["seed"], state["env_steps"]
        self.count_gradient_steps(state["gradient_steps"])
        self.fresh = state["fresh"]
        self.refresh()
        with restoring():
            self.start()  # the exploration of this config, which may differ
        self.set_extra_state(state["extra"])

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
