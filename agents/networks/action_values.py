"""What a network says of an action: one number, its value; or how returns are distributed (`categorical_values`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.networks.builders import gather_actions

Array = np.ndarray[Any, Any]
Number = Callable[[str], Any]
"""Name of a live number -> its value."""


class Learned(NamedTuple):
    """What there is to learn from each row of a minibatch."""

    losses: Any  # [B] what the optimizer lowers
    priorities: Any  # [B] how much a replay should care for the row
    values: Any  # [B] of the action that was taken
    errors: Any  # [B] by how much that differs from its target
    metrics: Mapping[str, Any]  # further scalars


class ActionValues(ABC):
    """How outputs of a network are read, and what is learned from them."""

    n_outputs: int
    """Numbers that the network gives of each action."""

    def layers(self) -> Sequence[keras.layers.Layer]:
        """Layers that bring outputs [B, A * n_outputs] into the shape that is read here."""
        return []

    @abstractmethod
    def expected(self, outputs: Array, number: Number) -> Array:
        """Return the values [N, A] of actions, for acting."""

    @abstractmethod
    def of_best(self, outputs: Any, chooser: Any) -> Any:
        """Of each row, the outputs of the action that is best by `chooser`: outputs of the same or another network."""

    @abstractmethod
    def learn(self, outputs: Any, successors: Any, rewards: Any, discounts: Any, number: Number) -> Learned:
        """Compare outputs with their targets, through which no gradient goes.

        Args:
            outputs: [B, ...] of the actions that were taken.
            successors: [B, ...] outputs of what was best to do next.
            rewards: [B] on the way there.
            discounts: [B] how much what follows counts; 0 where nothing does.
            number: Gives live numbers.
        """


class ScalarValues(ActionValues):
    """One number an action. Errors count by their squares up to 1 and by their sizes beyond (Huber)."""

    n_outputs = 1

    def expected(self, outputs: Array, number: Number) -> Array:
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
