"""Numbers that can change while an agent exists: they are variables, so nothing is compiled again.

There are the live hyperparameters that a loss reads (`Live`), and the numbers inside an optimizer's rule
(`OptimizerNumbers`): weight decay, momenta, the numbers of a learning-rate schedule.
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
    """The live numbers of an agent as scalar variables: ``self.live.gamma`` inside a loss."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._variables = {name: _scalar(name, value) for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_variables"][name]
        except KeyError:
            raise AttributeError(f"no live hyperparameter {name!r}") from None

    @property
    def variables(self) -> list[Any]:
        """All of them."""
        return list(self._variables.values())

    def assign(self, name: str, value: float) -> None:
        """Sets one number."""
        self._variables[name].assign(value)


_REFUSES = "_refuses"
"""Attribute of the classes of configs in which some fields cannot be read."""


def refusing(
    config: AgentConfig, refused: Mapping[str, str], error: type[Exception] = ConfigurationError
) -> AgentConfig:
    """Return a copy of a config in which some fields cannot be read, by its own methods and properties included.

    Args:
        config: The config.
        refused: Field -> the text of the error that reading it raises.
        error: That error. Defaults to `ConfigurationError`.
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
"""Fields of a config that optimizers read from variables."""


def _as_traced(config: AgentConfig, hook: str) -> AgentConfig:
    """Return a config as a traced hook sees it: without what may change later."""
    read = f"{hook}() reads self.config."
    otherwise = (
        ", which may change, and differ between the members of a population, without the update being compiled again: "
        "let preprocess_batch() put it into the data."
    )
    refused = {name: f"{read}{name}{otherwise}" for name in (*OPTIMIZER_FIELDS, *config.acting_values())}
    for name in config.live_values():
        refused[name] = (
            f"{read}{name}, which would be fixed for good when the update is compiled: read self.live.{name}."
        )
    return refusing(config, refused)


def guarded(agent: Any, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that becomes part of a compiled update, with a config that gives no number that may change.

    A number that a hook reads from the config is fixed when the update is traced, for all members of a population.
    """
    name = getattr(hook, "__name__", "loss")

    def call(*arguments: Any) -> Any:
        config = agent.config
        if hasattr(type(config), _REFUSES):  # the replicas of a strategy may be traced in turns, in threads
            return hook(*arguments)
        agent.config = _as_traced(config, name)
        try:
            return hook(*arguments)
        finally:
            agent.config = config

    return call


class OptimizerNumbers:
    """The numbers that a specification names, in the optimizer that was built from it.

    Keras keeps them as plain numbers, which would be fixed for good when the update is compiled. They stay that
    outside; only while an update is traced there are variables in their places.

    Args:
        optimizer: A Keras optimizer.
        spec: What it was built from.
    """

    def __init__(self, optimizer: Any, spec: OptimizerSpec) -> None:
        self._optimizer = optimizer
        self._numbers = {name: _Number(name, value) for name, value in spec.numbers().items()}

    @property
    def variables(self) -> list[Any]:
        """All of them."""
        return [variable for number in self._numbers.values() for variable in number.variables]

    def assign(self, spec: OptimizerSpec) -> None:
        """Takes the numbers of a specification of the same structure."""
        for name, value in spec.numbers().items():
            self._numbers[name].assign(value)

    @contextmanager
    def in_place(self) -> Generator[None]:
        """For as long as the block lasts, the optimizer reads the variables. Only to be used while tracing."""
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
    """A number of a Keras rule as a variable.

    Rules compute ``1 - beta`` in double precision before it becomes a constant in single. In single, 1 - 0.999 would be
    off by 5e-5, so that difference is a variable of its own. And rules ask whether a momentum is 0; one that is has no
    variable (`OptimizerSpec.numbers`).
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
