"""Mutable hyperparameters: numbers stored in variables, so that a change compiles nothing again.

`Live` has the hyperparameters that a loss reads; `OptimizerNumbers` has the numbers inside an optimizer's rule: weight
decay, momenta, the numbers of a learning-rate schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agents.backend.tensorflow import keras, tf
from agents.config.agent_config import AgentConfig
from agents.config.optimizers import OptimizerSpec
from agents.errors import ConfigurationError


class Live:
    """The mutable hyperparameters of an agent as scalar variables: ``self.live.gamma`` inside a loss."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._variables = {name: _scalar(name, value) for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_variables"][name]
        except KeyError:
            raise AttributeError(f"no mutable hyperparameter {name!r}") from None

    def __contains__(self, name: str) -> bool:
        return name in self._variables

    @property
    def variables(self) -> list[Any]:
        """All variables."""
        return list(self._variables.values())

    def assign(self, name: str, value: float) -> None:
        """Set one hyperparameter."""
        self._variables[name].assign(value)


_TRACED = "_traced"
"""Name of an attribute that marks config classes of traced hooks."""

_REFUSES = "_refuses"
"""Name of an attribute that marks config classes with unreadable fields."""


def with_unreadable_fields(
    config: AgentConfig, refused: Mapping[str, str], error: type[Exception] = ConfigurationError
) -> AgentConfig:
    """Return a copy of a config in which some fields cannot be read, not even by its own methods and properties.

    Args:
        config: The config.
        refused: Field -> message of the error that reading it raises.
        error: Type of that error. Defaults to `ConfigurationError`.
    """

    def read(self: Any, name: str) -> Any:
        if name in refused:
            raise error(refused[name])
        return object.__getattribute__(self, name)

    own = type(config)
    changed = {"__getattribute__": read, "__repr__": lambda _: repr(config), _REFUSES: True}
    guard: AgentConfig = object.__new__(type(own.__name__, (own,), changed))
    values = vars(config) | {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    for name, value in values.items():
        object.__setattr__(guard, name, value)
    return guard


OPTIMIZER_FIELDS = ("learning_rate", "optimizer_kwargs", "optimizers")
"""Config fields that optimizers read from variables."""


def _as_traced(config: AgentConfig, hook: str) -> AgentConfig:
    """Return a copy of a config for traced hooks, in which mutable hyperparameters cannot be read."""
    read = f"{hook}() reads self.config."
    otherwise = (
        ", which may change, and differ between the members of a population, without the update being compiled again: "
        "let preprocess_batch() put it into the data."
    )
    refused = {name: f"{read}{name}{otherwise}" for name in (*OPTIMIZER_FIELDS, *config.acting_values())}
    for name in config.live_values():
        refused[name] = f"{read}{name}, which the compiled update would fix: read self.hyperparameters.{name}."
    guard = with_unreadable_fields(config, refused)
    setattr(type(guard), _TRACED, True)
    return guard


def is_traced(config: AgentConfig) -> bool:
    """Return whether a config is the config of a hook that is being traced."""
    return hasattr(type(config), _TRACED)


def guarded(agent: Any, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook of a compiled update that runs with a config without mutable hyperparameters.

    A number that a hook reads from the config is fixed when the update is traced, for all members of a population.
    """
    name = getattr(hook, "__name__", "loss")

    def call(*arguments: Any) -> Any:
        config = agent.config
        if hasattr(type(config), _REFUSES):  # a strategy may trace its replicas alternately, in threads
            return hook(*arguments)
        agent.config = _as_traced(config, name)
        try:
            return hook(*arguments)
        finally:
            agent.config = config

    return call


class OptimizerNumbers:
    """The mutable numbers of an optimizer, as its specification names them.

    Keras stores them as plain numbers, which a compiled update would fix for good. Outside tracing they stay plain
    numbers; while an update is traced, variables take their places.

    Args:
        optimizer: A Keras optimizer.
        spec: The specification of the optimizer.
    """

    def __init__(self, optimizer: Any, spec: OptimizerSpec) -> None:
        self._optimizer = optimizer
        self._numbers = {name: _Number(name, value) for name, value in spec.numbers().items()}

    @property
    def variables(self) -> list[Any]:
        """All variables."""
        return [variable for number in self._numbers.values() for variable in number.variables]

    def assign(self, spec: OptimizerSpec) -> None:
        """Assign the numbers of a specification of the same structure."""
        for name, value in spec.numbers().items():
            self._numbers[name].assign(value)

    @contextmanager
    def in_place(self) -> Generator[None]:
        """Replace the optimizer's plain numbers by variables within the block. For use while tracing only."""
        places = {name: self._place(name) for name in self._numbers}
        before = {name: getattr(holder, attribute) for name, (holder, attribute) in places.items()}
        try:
            for name, (holder, attribute) in places.items():
                object.__setattr__(holder, attribute, self._numbers[name])
            yield
        finally:
            for name, (holder, attribute) in places.items():
                object.__setattr__(holder, attribute, before[name])

    def _place(self, name: str) -> tuple[Any, str]:
        owner, _, attribute = name.rpartition(".")
        return (self._optimizer._learning_rate if owner else self._optimizer), attribute


class _Number:
    """A number of a Keras optimizer's rule as a variable.

    Rules compute ``1 - beta`` in double precision before it becomes a single-precision constant. In single precision,
    1 - 0.999 would be off by 5e-5, so the difference has a variable of its own. Rules also test whether a momentum is
    0; a momentum of 0 has no variable (`OptimizerSpec.numbers`).
    """

    def __init__(self, name: str, value: float) -> None:
        self._value = _scalar(name, value)
        self._complement = _scalar(f"1_{name}", 1.0 - value)

    @property
    def variables(self) -> Sequence[Any]:
        return [self._value, self._complement]

    def assign(self, value: float) -> None:
        self._value.assign(value)
        self._complement.assign(1.0 - value)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        return tf.convert_to_tensor(self._value.value)

    def __rsub__(self, other: Any) -> Any:
        return tf.convert_to_tensor(self._complement.value) if other == 1 else other - self._value

    def __sub__(self, other: Any) -> Any:
        return -tf.convert_to_tensor(self._complement.value) if other == 1 else self._value - other

    def __mul__(self, other: Any) -> Any:
        return self._value * other

    def __rmul__(self, other: Any) -> Any:
        return other * self._value

    def __gt__(self, zero: float) -> bool:
        return True

    def __ne__(self, zero: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _scalar(name: str, value: float) -> Any:
    return keras.Variable(value, dtype="float32", trainable=False, name=name.replace(".", "_"))
