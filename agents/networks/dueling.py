"""Dueling networks (Wang et al. 2015, arXiv 1511.06581).

After shared features, the state value and the advantages each have their own hidden layer. Without these layers, the
sum of both would be the same function as an ordinary last layer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras
from agents.errors import ConfigurationError
from agents.networks.inference import noise_of, numpy_function, split_noise

Array = np.ndarray[Any, Any]
MakeDense = Callable[..., Sequence[keras.layers.Layer]]
"""Function from a number of units, and optionally the name of an activation, to the layers."""


def dueling_head(hidden_size: int, n_actions: int, n_outputs: int, activation: str, dense: MakeDense) -> Streams:
    """Return the last hidden layers and the outputs of a dueling network; `Dueling` combines them.

    Args:
        hidden_size: Units of the hidden layer of each stream.
        n_actions: A.
        n_outputs: Outputs per action, Z.
        activation: Keras activation of the hidden layers.
        dense: Makes dense layers.
    """

    def stream(n_units: int) -> list[keras.layers.Layer]:
        return [*dense(hidden_size, activation), *dense(n_units)]

    return Streams([stream(n_outputs), stream(n_actions * n_outputs)])


def split_hidden(hidden_sizes: Sequence[int]) -> tuple[Sequence[int], int]:
    """Return the sizes of the shared hidden layers, and the size of each stream's own hidden layer: the last one.

    Raises:
        ConfigurationError: There is no hidden layer.
    """
    if not hidden_sizes:
        raise ConfigurationError(
            "A dueling network has a hidden layer for each of its streams: give hidden_sizes at least one size."
        )
    return hidden_sizes[:-1], hidden_sizes[-1]


@keras.saving.register_keras_serializable("agents")
class Streams(keras.layers.Layer):
    """Several stacks of layers on the same inputs, with concatenated outputs.

    Args:
        stacks: The layers of each stack, in order.
    """

    def __init__(self, stacks: Sequence[Sequence[keras.layers.Layer]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = [layer for stack in stacks for layer in stack]
        self._sizes = [len(stack) for stack in stacks]

    @property
    def n_noise(self) -> int:
        """Numbers of noise per row, for noisy layers."""
        return sum(map(noise_of, self.parts))

    def call(self, inputs: Any, noise: Any = None) -> Any:
        """Map [B, F] to [B, sum of outputs], with noise [B or 1, n_noise]."""

        def step(layer: keras.layers.Layer, x: Any, own_noise: Any) -> Any:
            return layer(x) if own_noise is None else layer(x, noise=own_noise)

        return keras.ops.concatenate(self._outputs(inputs, noise, step), axis=-1)

    def numpy_call(self, inputs: Array, weights: list[Array], noise: Array | None = None) -> Array:
        """Compute the same in NumPy, for acting: [..., F] -> [..., sum of outputs]."""
        given, functions = iter(weights), iter(self._numpy_functions)

        def step(layer: keras.layers.Layer, x: Array, own_noise: Array | None) -> Array:
            function, n_weights = next(functions)
            own = [next(given) for _ in range(n_weights)]
            return function(x, own) if own_noise is None else function(x, own, own_noise)

        return np.concatenate(self._outputs(inputs, noise, step), axis=-1)

    @functools.cached_property
    def _numpy_functions(self) -> list[tuple[Callable[..., Array], int]]:
        """Return the NumPy function of each layer, and the layer's number of weights."""
        return [(numpy_function(layer), len(layer.weights)) for layer in self.parts]

    def _outputs(self, inputs: Any, noise: Any, step: Callable[[keras.layers.Layer, Any, Any], Any]) -> list[Any]:
        """Return the outputs of each stack; `step` computes a layer with its own part of the noise."""
        each = zip(self.parts, split_noise(noise, map(noise_of, self.parts)), strict=True)
        outputs = []
        for size in self._sizes:
            x = inputs
            for layer, own in itertools.islice(each, size):
                x = step(layer, x, own)
            outputs.append(x)
        return outputs

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        layers = iter([keras.saving.serialize_keras_object(layer) for layer in self.parts])
        return {**super().get_config(), "stacks": [[next(layers) for _ in range(size)] for size in self._sizes]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Streams:
        """Return the layer of a saved configuration."""
        stacks = [[keras.saving.deserialize_keras_object(layer) for layer in stack] for stack in config["stacks"]]
        return cls(**{**config, "stacks": stacks})


@keras.saving.register_keras_serializable("agents")
class Dueling(keras.layers.Layer):
    """Layer that computes action values as a state value plus advantages of mean zero."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Determine the axis of the actions, counted from the end."""
        self._actions = 1 - len(input_shape)

    def call(self, both: Any) -> Any:
        """Map [B, 1 + A] to [B, A], or [B, 1 + A, Z] to [B, A, Z]."""
        value, advantages = both[:, :1], both[:, 1:]
        return value + advantages - keras.ops.mean(advantages, axis=1, keepdims=True)

    def numpy_call(self, both: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy, for acting, with any leading axes."""
        value, advantages = np.split(both, [1], axis=self._actions)
        result: Array = value + advantages - advantages.mean(axis=self._actions, keepdims=True)
        return result
