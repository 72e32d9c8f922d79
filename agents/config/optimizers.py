"""Optimizers as data: a name, a learning rate and arguments, from which a fresh Keras optimizer can be built.

A Keras optimizer binds to the variables that it updates and cannot be shared between agents or sent to another
process. An `OptimizerSpec` can. It is made from a name, a Keras optimizer object or a serialised
Keras config.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from agents.config.optimizer_labels import parse_label
from agents.config.rate_schedules import schedule_text
from agents.errors import ConfigurationError, unknown_name
from agents.trust.allowed_modules import check_config, check_found, check_module
from agents.trust.loading import module_of

KERAS_OPTIMIZERS: Mapping[str, str] = {
    name.lower(): name
    for name in (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "Ftrl",
        "Lamb",
        "Lion",
        "Muon",
        "Nadam",
        "RMSprop",
        "SGD",
        "ScheduleFreeAdamW",
    )
}
"""Lower-case name -> Keras class name, known without importing Keras."""

TORCH_OPTIMIZERS = "torch.optim:"
"""Prefix of the names of PyTorch's optimizers, for agents in PyTorch."""

_TYPICAL_RATES = {"sgd": (1e-4, 1e0), "adagrad": (1e-4, 1e0), "ftrl": (1e-4, 1e0), "adadelta": (1e-2, 1e1)} | {
    "lion": (1e-6, 1e-2)
}

_USUAL_RATE = 1e-3
"""Learning rate of an optimizer that is named without one."""

_NUMBERS = frozenset({"beta_1", "beta_2", "epsilon", "momentum", "rho", "weight_decay"})
"""Arguments of Keras's optimizers that are only used as numbers, except for tests whether they are set."""

_SCHEDULE_NUMBERS: Mapping[str, frozenset[str]] = {
    "CosineDecay": frozenset({"initial_learning_rate", "alpha", "warmup_target"}),
    "CosineDecayRestarts": frozenset({"initial_learning_rate", "alpha"}),
    "ExponentialDecay": frozenset({"initial_learning_rate", "decay_rate"}),
    "InverseTimeDecay": frozenset({"initial_learning_rate", "decay_rate"}),
    "PolynomialDecay": frozenset({"initial_learning_rate", "end_learning_rate"}),
}
"""Arguments of Keras's learning-rate schedules that are only used as numbers."""


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """Specification of an optimizer that is not built yet.

    Attributes:
        name: A Keras optimizer in lower case (``"adamw"``) or a user's class as ``"module:Class"``. Defaults to
            ``"adam"``.
        learning_rate: Step size, > 0; or a Keras learning-rate schedule, serialised by
            `keras.optimizers.schedules.serialize`. Defaults to 0.001.
        arguments: Further arguments, as the Keras class names them. Defaults to none.

    Raises:
        ConfigurationError: The name is unknown, or the learning rate is not a finite number > 0.
    """

    name: str = "adam"
    learning_rate: float | Mapping[str, Any] = _USUAL_RATE
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Normalise the name, and check name and rate."""
        name = str(self.name).lower()
        if name in KERAS_OPTIMIZERS:
            object.__setattr__(self, "name", name)
        elif ":" not in name:
            raise unknown_name("optimizer", self.name, KERAS_OPTIMIZERS)
        if not isinstance(self.learning_rate, Mapping):
            object.__setattr__(self, "learning_rate", _checked_rate(self.learning_rate))

    @classmethod
    def of(cls, value: Any) -> Self:
        """Make a spec from a name, a Keras optimizer object, a serialised Keras config, or a spec.

        Raises:
            ConfigurationError: `value` is none of these, or names an optimizer that does not exist.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            name, arguments = parse_label(value)
            return cls(name=name, learning_rate=arguments.pop("learning_rate", _USUAL_RATE), arguments=arguments)
        if isinstance(value, Mapping) and "class_name" in value:
            return cls._of_serialised(value)
        if not isinstance(value, type) and hasattr(value, "get_config") and hasattr(value, "apply"):
            from agents.backend.tensorflow import keras

            return cls._of_serialised(keras.optimizers.serialize(value))
        raise ConfigurationError(
            f"An optimizer must be a name such as 'adamw', a Keras optimizer, or a serialised one "
            f"({{'class_name': ..., 'config': ...}}), got {value!r}."
        )

    @property
    def label(self) -> str:
        """Name and arguments that are not Keras's defaults: ``sgd(momentum=0.9)``; `of` reads it."""
        return self._label([])

    @property
    def label_with_schedule(self) -> str:
        """The label; with a schedule, it comes first: ``adam(CosineDecay(0.001, 1000))``. `of` reads those of Keras."""
        rate = self.learning_rate
        return self._label([schedule_text(rate)] if isinstance(rate, Mapping) else [])

    def _label(self, first: Sequence[str]) -> str:
        """Return the label with these arguments before its own."""
        own: dict[str, Any] = {}
        if self.arguments:
            parameters = inspect.signature(self.optimizer_class()).parameters
            defaults = {name: parameter.default for name, parameter in parameters.items()}
            own = {key: json.dumps(value) for key, value in self.arguments.items() if value != defaults.get(key)}
        arguments = ", ".join([*first, *(f"{key}={value}" for key, value in own.items())])
        return f"{self.name}({arguments})" if arguments else self.name

    def numbers(self) -> dict[str, float]:
        """Return the arguments that can change while the optimizer exists, except for a numeric learning rate.

        These are explicit arguments such as weight decay and momenta, and the numbers of a schedule as
        ``learning_rate.initial_learning_rate``. A value of None or 0 switches a part of the update rule off and cannot
        change, and arguments of a user's optimizer cannot change, because its update rule is unknown.
        """
        if self.name not in KERAS_OPTIMIZERS:
            return {}
        found = {name: self.arguments[name] for name in _NUMBERS & {*self.arguments} if self.arguments[name] != 0}
        if isinstance(self.learning_rate, Mapping):
            config = self.learning_rate.get("config", {})
            names = _SCHEDULE_NUMBERS.get(str(self.learning_rate.get("class_name")), frozenset())
            found |= {f"learning_rate.{name}": config[name] for name in names & {*config}}
        return {name: float(value) for name, value in sorted(found.items()) if _is_number(value)}

    def structure(self) -> str:
        """Return the specification as text, with ``*`` in place of the values that can change later."""
        numbers = self.numbers()
        arguments = {name: "*" if name in numbers else json.dumps(v) for name, v in sorted(self.arguments.items())}
        if isinstance(self.learning_rate, Mapping):
            schedule = dict(self.learning_rate)
            schedule["config"] = {
                name: "*" if f"learning_rate.{name}" in numbers else value
                for name, value in schedule.get("config", {}).items()
            }
            arguments["learning_rate"] = json.dumps(schedule, sort_keys=True)
        text = ", ".join(f"{name}={value}" for name, value in arguments.items())
        return f"{self.name}({text})" if text else self.name

    @property
    def typical_rates(self) -> tuple[float, float]:
        """Return the range of learning rates in which this optimizer usually works best.

        Optimizers that divide by the size of past gradients take steps of about the learning rate; others take
        steps in proportion to the gradient and need larger rates.
        """
        return _TYPICAL_RATES.get(self.name, (1e-5, 1e-1))

    @classmethod
    def _of_serialised(cls, value: Mapping[str, Any]) -> Self:
        config = dict(value.get("config", {}))
        class_name = str(value["class_name"])
        module = str(value.get("module") or "")
        if class_name.lower() in KERAS_OPTIMIZERS and (not module or module.partition(".")[0] == "keras"):
            name = class_name.lower()
        else:
            name = f"{module or '__main__'}:{class_name.rpartition('>')[2]}"
        rate = config.pop("learning_rate", _USUAL_RATE)
        config.pop("name", None)
        return cls(name=name, learning_rate=rate if isinstance(rate, Mapping) else _shortest(rate), arguments=config)

    def with_rate(self, learning_rate: float) -> Self:
        """Return the same optimizer with another learning rate."""
        return type(self)(name=self.name, learning_rate=learning_rate, arguments=self.arguments)

    def build(self) -> Any:
        """Return a new Keras optimizer that is not bound to variables yet.

        Raises:
            ConfigurationError: An argument does not exist or has a value that Keras refuses.
        """
        from agents.backend.tensorflow import keras

        made_class = self.optimizer_class()
        if self.name in KERAS_OPTIMIZERS:
            known = self.takes()
            for argument in self.arguments:
                if argument not in known:
                    raise unknown_name(f"argument of the optimizer {self.name!r}", argument, known)
        rate = self.learning_rate
        try:
            if isinstance(rate, Mapping):
                check_config(rate)
                rate = keras.optimizers.schedules.deserialize(dict(rate))
            return made_class(learning_rate=rate, **self.arguments)
        except (TypeError, ValueError) as error:
            given = f"learning_rate {self.learning_rate!r} and arguments {dict(self.arguments)!r}"
            raise ConfigurationError(f"Optimizer {self.name!r} cannot be built with {given}: {error}") from error

    def refuse_without_effect(self) -> None:
        """Refuse arguments for what only Keras's own training loop does.

        Raises:
            ConfigurationError: There is such an argument.
        """
        factor, frequency = self.arguments.get("loss_scale_factor"), self.arguments.get("ema_overwrite_frequency")
        if factor is not None:
            raise ConfigurationError(
                f"loss_scale_factor={factor!r} would only divide the gradients, as no loss is multiplied by it here: "
                f"leave it out."
            )
        if self.arguments.get("use_ema") and not frequency:
            raise ConfigurationError(
                "use_ema=True without ema_overwrite_frequency averages weights that nothing uses: set "
                "ema_overwrite_frequency to the optimizer steps after which the averages replace the weights, or leave "
                "out use_ema."
            )

    def takes(self) -> set[str]:
        """Return the names of the optimizer's arguments, except for the learning rate."""
        from agents.backend.tensorflow import keras

        return {*_parameters(self.optimizer_class()), *_parameters(keras.optimizers.Optimizer)} - {"learning_rate"}

    def uses(self, argument: str) -> bool:
        """Return whether the default of an argument is neither None nor 0, so that setting 0 switches a part off."""
        parameters = inspect.signature(self.optimizer_class()).parameters
        return argument in parameters and parameters[argument].default not in (None, 0, inspect.Parameter.empty)

    def optimizer_class(self) -> Any:
        """Return the Keras class that `name` stands for."""
        from agents.backend.tensorflow import keras

        if self.name in KERAS_OPTIMIZERS:
            return getattr(keras.optimizers, KERAS_OPTIMIZERS[self.name])
        module_name, _, class_name = self.name.partition(":")
        if module_name != "__main__":
            check_module(module_name)
        try:
            module = sys.modules.get(module_name) or module_of(module_name)
            found = getattr(module, class_name)
            check_found(self.name, found)
            return found
        except (ConfigurationError, AttributeError) as error:
            reason = str(error).removesuffix(".")
            raise ConfigurationError(f"Optimizer {self.name!r} cannot be imported: {reason}.") from error

    def serialised(self) -> dict[str, Any]:
        """Return the complete Keras config, with every default spelled out; `OptimizerSpec.of` reads it.

        Of an optimizer of PyTorch it is class and arguments in the same form.

        `keras.saving.deserialize_keras_object` reads it, too. (`keras.optimizers.deserialize` of Keras 3.15 does not
        know Lamb and returns a string.)
        """
        if self.name.startswith(TORCH_OPTIMIZERS):
            module, _, class_name = self.name.partition(":")
            settings = {**self.arguments, "learning_rate": self.learning_rate}
            return {"module": module, "class_name": class_name, "config": settings}
        from agents.backend.tensorflow import keras

        config: dict[str, Any] = keras.optimizers.serialize(self.build())
        if not isinstance(self.learning_rate, Mapping):
            config["config"]["learning_rate"] = self.learning_rate
        return config


def rate_in(optimizer: Any) -> float | Mapping[str, Any] | None:
    """Return the learning rate that a given optimizer contains: every object does, a name or label may have none.

    Raises:
        ConfigurationError: The optimizer cannot be read.
    """
    if isinstance(optimizer, str) and "learning_rate" not in parse_label(optimizer)[1]:
        return None
    return OptimizerSpec.of(optimizer).learning_rate


def variables_of(optimizer: Any) -> list[Any]:
    """Return every variable of a Keras optimizer: counter, rate and slots.

    `optimizer.variables` leaves out variables that an optimizer holds in an attribute only (Nadam's running
    momentum product in Keras 3.15), and a state saved without them cannot be restored exactly.
    """
    from agents.backend.tensorflow import keras

    known = list(optimizer.variables)
    seen = {id(variable) for variable in known}
    hidden = [v for v in vars(optimizer).values() if isinstance(v, keras.Variable) and id(v) not in seen]
    return known + hidden


def _checked_rate(rate: Any) -> float:
    try:
        number = float("nan") if isinstance(rate, bool) else float(rate)
    except (TypeError, ValueError):
        number = float("nan")
    if not (np.isfinite(number) and number > 0):
        raise ConfigurationError(f"learning_rate must be a finite number > 0, got {rate!r}.")
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parameters(function: Any) -> set[str]:
    """Return the names of the named parameters."""
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)}


def _shortest(rate: Any) -> float:
    """Return the shortest decimal of a rate that Keras stores in 32 bits: 0.001, not 0.0010000000474974513."""
    single = np.float32(rate)
    return float(str(single)) if float(single) == float(rate) else float(rate)
