"""Interpretation of a network's outputs as action values: scalars here, distributions in `categorical_values`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.networks.builders import gather_actions

Array = np.ndarray[Any, Any]
Number = Callable[[str], Any]
"""Function from the name of a mutable hyperparameter to its value."""


class Learned(NamedTuple):
    """Losses and statistics of each row of a minibatch."""

    losses: Any  # [B] minimised by the optimizer
    priorities: Any  # [B] priority of the row for a prioritised replay
    values: Any  # [B] value of the action that was taken
    errors: Any  # [B] difference of the value from its target
    metrics: Mapping[str, Any]  # further scalars


class ActionValues(ABC):
    """Base class for the interpretation of a network's outputs and for the losses on them."""

    n_outputs: int
    """Number of network outputs per action."""

    def layers(self) -> Sequence[keras.layers.Layer]:
        """Return the layers that bring outputs [B, A * n_outputs] into the shape expected here."""
        return []

    @abstractmethod
    def expected(self, outputs: Array, number: Number) -> Array:
        """Return the values [N, A] of actions, for acting."""

    @abstractmethod
    def values(self, outputs: Any, number: Number) -> Any:
        """Return the values [B, A] of actions, differentiable in the outputs."""

    @abstractmethod
    def of_best(self, outputs: Any, chooser: Any) -> Any:
        """Return each row's outputs of the action that is best by `chooser`, outputs of the same or another network."""

    @abstractmethod
    def learn(self, outputs: Any, successors: Any, rewards: Any, discounts: Any, number: Number) -> Learned:
        """Compare outputs with their targets; no gradient flows through the targets.

        Args:
            outputs: [B, ...] outputs of the actions that were taken.
            successors: [B, ...] outputs of the best next action.
            rewards: [B] n-step rewards.
            discounts: [B] discount of the successors; 0 after a termination.
            number: Returns mutable hyperparameters by name.
        """


class ScalarValues(ActionValues):
    """One value per action, with the Huber loss: quadratic for errors up to 1, linear beyond."""

    n_outputs = 1

    def expected(self, outputs: Array, number: Number) -> Array:
        return outputs

    def values(self, outputs: Any, number: Number) -> Any:
        return outputs

    def of_best(self, outputs: Any, chooser: Any) -> Any:
        if chooser is outputs:
            return ops.max(outputs, axis=1)
        return gather_actions(outputs, ops.argmax(chooser, axis=1))

    def learn(self, outputs: Any, successors: Any, rewards: Any, discounts: Any, number: Number) -> Learned:
        errors = ops.stop_gradient(rewards + discounts * successors) - outputs  # [B]
        sizes = ops.abs(errors)
        huber = ops.where(sizes <= 1.0, 0.5 * ops.square(errors), sizes - 0.5)
        return Learned(huber, sizes, outputs, sizes, {})
