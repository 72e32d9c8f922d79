"""PyTorch optimizers from an `OptimizerSpec`, by Keras's names and arguments.

A name means the same update rule in both libraries, but for the place of epsilon.

An optimizer of PyTorch that Keras lacks is named by its class, with PyTorch's arguments:
``torch.optim:RAdam(eps=1e-6)``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agents.backend.pytorch import import_torch
from agents.config.optimizers import KERAS_OPTIMIZERS, OptimizerSpec
from agents.errors import ConfigurationError, unknown_name

Array = np.ndarray[Any, Any]
Arguments = Mapping[str, Any]


def _betas(given: Arguments) -> dict[str, Any]:
    return {"betas": (given["beta_1"], given["beta_2"]), "eps": given["epsilon"]}


_RULES: Mapping[str, tuple[str, tuple[str, ...], Callable[[Arguments], dict[str, Any]]]] = {
    "adadelta": ("Adadelta", ("rho", "epsilon"), lambda given: {"rho": given["rho"], "eps": given["epsilon"]}),
    "adagrad": (
        "Adagrad",
        ("initial_accumulator_value", "epsilon"),
        lambda given: {
            "initial_accumulator_value": given["initial_accumulator_value"],
            "eps": math.sqrt(given["epsilon"]),
        },
    ),
    "adam": (
        "Adam",
        ("beta_1", "beta_2", "epsilon", "amsgrad"),
        lambda given: {**_betas(given), "amsgrad": given["amsgrad"]},
    ),
    "adamax": ("Adamax", ("beta_1", "beta_2", "epsilon"), _betas),
    "adamw": (
        "AdamW",
        ("beta_1", "beta_2", "epsilon", "amsgrad", "weight_decay"),
        lambda given: {**_betas(given), "amsgrad": given["amsgrad"], "weight_decay": given["weight_decay"] or 0.0},
    ),
    "nadam": (
        "NAdam",
        ("beta_1", "beta_2", "epsilon"),
        lambda given: {**_betas(given), "momentum_decay": 1.0},  # Keras's momentum grows by 0.96 ** step
    ),
    "rmsprop": (
        "RMSprop",
        ("rho", "momentum", "epsilon", "centered"),
        lambda given: {
            "alpha": given["rho"],
            "momentum": given["momentum"],
            "eps": math.sqrt(given["epsilon"]),
            "centered": given["centered"],
        },
    ),
    "sgd": (
        "SGD",
        ("momentum", "nesterov"),
        lambda given: {"momentum": given["momentum"], "nesterov": given["nesterov"] and given["momentum"] > 0},
    ),
}
"""Keras name -> class of `torch.optim`, the arguments that have a counterpart, and their translation.

Keras adds epsilon of RMSprop and Adagrad under the root and PyTorch adds it to the root, so its root is taken. Epsilon
of Adam, AdamW and Nadam is added before the correction of the bias in Keras and after it in PyTorch.
"""


def torch_optimizer(spec: OptimizerSpec) -> tuple[Any, dict[str, Any]]:
    """Return the class of `torch.optim` of a specification, and its arguments except for the learning rate.

    Arguments that are not given have Keras's defaults, for classes of PyTorch named as such their own.

    Raises:
        ConfigurationError: The optimizer or an argument has no counterpart in PyTorch.
    """
    torch = import_torch()
    if spec.name not in KERAS_OPTIMIZERS:
        found = spec.optimizer_class()
        if not (isinstance(found, type) and issubclass(found, torch.optim.Optimizer)):
            raise ConfigurationError(f"The optimizer {spec.name!r} of an agent in PyTorch must be a torch.optim class.")
        return found, dict(spec.arguments)
    if spec.name not in _RULES:
        raise ConfigurationError(
            f"The optimizer {spec.name!r} has no counterpart in PyTorch. These have one: {', '.join(sorted(_RULES))}; "
            f"another one of PyTorch is named by its class, such as torch.optim:RAdam."
        )
    name, translated, translate = _RULES[spec.name]
    defaults = {key: each.default for key, each in inspect.signature(spec.optimizer_class()).parameters.items()}
    for argument, value in spec.arguments.items():
        if argument not in spec.takes():
            raise unknown_name(f"argument of the optimizer {spec.name!r}", argument, translated)
        if argument not in translated and value != defaults.get(argument):
            raise ConfigurationError(
                f"{argument}={value!r} of the optimizer {spec.name!r} has no counterpart in PyTorch; it takes "
                f"{', '.join(translated)} here."
            )
    return getattr(torch.optim, name), translate({key: spec.arguments.get(key, defaults[key]) for key in translated})


class TorchOptimizer:
    """A PyTorch optimizer and the weights that it updates.

    Args:
        spec: The optimizer.
        weights: The parameters that it updates.

    Attributes:
        weights: The parameters that it updates.
        optimizer: The optimizer of `torch.optim`.

    Raises:
        ConfigurationError: It has no counterpart in PyTorch, refuses a value, or follows a learning-rate schedule.
    """

    def __init__(self, spec: OptimizerSpec, weights: Sequence[Any]) -> None:
        self.weights = list(weights)
        self._scales_momentum = spec.name in KERAS_OPTIMIZERS  # Keras's velocity has the rates of its steps in it
        if isinstance(spec.learning_rate, Mapping):
            raise ConfigurationError(
                "A learning-rate schedule of Keras cannot be followed by an optimizer of PyTorch: give a number, and "
                "change it with the callback HyperparameterSchedule."
            )
        made_class, arguments = torch_optimizer(spec)
        try:
            self.optimizer = made_class(self.weights, lr=spec.learning_rate, **arguments)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"The optimizer {spec.label!r} cannot be built in PyTorch: {error}") from error

    @property
    def numbers(self) -> TorchOptimizer:
        """The mutable numbers of its rule: itself."""
        return self

    def assign(self, spec: OptimizerSpec) -> None:
        """Set the arguments of a specification of the same structure; the learning rate stays."""
        for group in self.optimizer.param_groups:
            group.update(torch_optimizer(spec)[1])

    @property
    def learning_rate(self) -> float:
        """The present learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        ratio = self.learning_rate / value
        for group in self.optimizer.param_groups:
            group["lr"] = float(value)
        if self._scales_momentum and ratio != 1:
            for slots in self.optimizer.state.values():
                if (momentum := slots.get("momentum_buffer")) is not None:
                    momentum.mul_(ratio)

    def step(self, gradients: Sequence[Any]) -> None:
        """Make a step with the gradient of each weight, or None where the loss does not depend on it."""
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        self.optimizer.step()
        for weight in self.weights:
            weight.grad = None

    def state(self) -> dict[str, Any]:
        """Return slots and arguments, as arrays and plain values."""
        stored = self.optimizer.state_dict()
        torch = import_torch()
        return {
            "slots": {
                str(index): {
                    name: np.array(value.cpu().numpy()) if isinstance(value, torch.Tensor) else value
                    for name, value in slots.items()
                }
                for index, slots in stored["state"].items()
            },
            "arguments": [{k: v for k, v in group.items() if k != "params"} for group in stored["param_groups"]],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state`."""
        torch = import_torch()
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict(
            {
                "state": {
                    int(index): {
                        name: torch.tensor(value) if isinstance(value, np.ndarray) else value
                        for name, value in slots.items()
                    }
                    for index, slots in state["slots"].items()
                },
                "param_groups": [{**own, **stored} for own, stored in zip(groups, state["arguments"], strict=True)],
            }
        )

    def reset(self, spec: OptimizerSpec) -> None:
        """Set the state to that of a new optimizer."""
        fresh = TorchOptimizer(spec, self.weights)
        self.optimizer = fresh.optimizer
