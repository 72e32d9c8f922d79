"""Builders of the usual networks, chosen by the observation space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.backend import keras
from agents.errors import ConfigurationError, unknown_name

Array = np.ndarray[Any, Any]
Convolutions = Sequence[Sequence[int]]

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, kernel and stride in Mnih et al. 2015 ("Human-level control through deep reinforcement learning")."""


def network(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int],
    outputs: int,
    *,
    activation: str = "tanh",
    convolutions: Convolutions | None = None,
    output_scale: float | None = None,
    head: keras.layers.Layer | None = None,
    name: str | None = None,
) -> keras.Sequential:
    """A network from observations to `outputs` numbers: dense layers for vectors, convolutions first for images.

    Args:
        observation_space: Box; uint8 with three axes is an image [height, width, channels].
        hidden_sizes: Units of the hidden dense layers.
        outputs: Size of the last axis of the result.
        activation: Keras activation of the hidden layers.
        convolutions: Filters, kernel and stride of each, for images. Defaults to None: those of Mnih et al. 2015.
        output_scale: Gain of an orthogonal initialisation of the last layer (and sqrt(2), orthogonal, before it),
            as policy-gradient methods use it (Andrychowicz et al. 2020, arXiv 2006.05990); None for Keras's own.
        head: The last layer, in place of a dense one.
        name: Name of the network.

    Raises:
        ConfigurationError: An image too small for the convolutions, layers without units, or an unknown activation.
    """
    layers = body(observation_space, hidden_sizes, activation, convolutions, orthogonal=output_scale is not None)
    return headed(observation_space, layers, outputs, output_scale=output_scale, head=head, name=name)


def body(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int],
    activation: str,
    convolutions: Convolutions | None = None,
    *,
    orthogonal: bool = False,
) -> list[keras.layers.Layer]:
    """The layers of a network but for its last one; see `network`. Several networks may share them."""
    _check(hidden_sizes, activation)
    layers = _features(observation_space, convolutions)
    for size in hidden_sizes:
        init = keras.initializers.Orthogonal(np.sqrt(2)) if orthogonal else "glorot_uniform"
        layers.append(keras.layers.Dense(size, activation=activation, kernel_initializer=init))
    return layers


def headed(
    observation_space: spaces.Box,
    layers: Sequence[keras.layers.Layer],
    outputs: int,
    *,
    output_scale: float | None = None,
    head: keras.layers.Layer | None = None,
    name: str | None = None,
) -> keras.Sequential:
    """A network of these layers and a last one; see `network`."""
    if head is None:
        init = keras.initializers.Orthogonal(output_scale) if output_scale is not None else "glorot_uniform"
        head = keras.layers.Dense(outputs, kernel_initializer=init)
    return keras.Sequential([keras.Input(observation_space.shape), *layers, head], name=name)


def critic_network(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int],
    n_dimensions: int,
    *,
    activation: str = "relu",
    convolutions: Convolutions | None = None,
    name: str | None = None,
) -> keras.Model:
    """A network from ``[observations, actions]`` to one value, [B, 1]: actions join behind the convolutions.

    Args:
        observation_space: As in `network`.
        hidden_sizes: Units of the hidden dense layers.
        n_dimensions: Dimensions of an action, which is [B, D].
        activation: Keras activation of the hidden layers.
        convolutions: As in `network`.
        name: Name of the network.

    Raises:
        ConfigurationError: As in `network`.
    """
    _check(hidden_sizes, activation)
    observations, actions = keras.Input(observation_space.shape), keras.Input((n_dimensions,))
    x = observations
    for layer in _features(observation_space, convolutions):
        x = layer(x)
    x = keras.layers.Concatenate()([x, actions])
    for size in hidden_sizes:
        x = keras.layers.Dense(size, activation=activation)(x)
    return keras.Model([observations, actions], keras.layers.Dense(1)(x), name=name)


def constant(observation_space: spaces.Box, value: float, *, name: str | None = None) -> keras.Sequential:
    """A network that gives one learned number, [B, 1], whatever it sees."""
    return keras.Sequential([keras.Input(observation_space.shape), Constant(value)], name=name)


def _features(observation_space: spaces.Box, convolutions: Convolutions | None) -> list[keras.layers.Layer]:
    """What comes before the dense layers."""
    if is_image(observation_space):
        return _of_image(observation_space.shape, NATURE if convolutions is None else convolutions)
    if convolutions is not None:
        raise ConfigurationError(
            f"convolutions are for images (uint8 [height, width, channels]), not for {observation_space}."
        )
    return [keras.layers.Flatten()] if len(observation_space.shape) != 1 else []


def _check(hidden_sizes: Sequence[int], activation: str) -> None:
    if any(size < 1 for size in hidden_sizes):
        raise ConfigurationError(f"hidden_sizes must be whole numbers >= 1, got {list(hidden_sizes)}.")
    try:
        keras.activations.get(activation)
    except ValueError:
        known = [name for name in dir(keras.activations) if not name.startswith("_")]
        raise unknown_name("activation", activation, {*known} - {"get", "serialize", "deserialize"}) from None


def of_actions(values: Any, actions: Any) -> Any:
    """The value of each row's action: [B, A] and [B] -> [B].

    A masked sum, whose gradient is another mask; that of a gather is a scatter, which XLA makes a loop of on a CPU.
    """
    ops = keras.ops
    chosen = ops.expand_dims(actions, 1) == ops.arange(values.shape[1], dtype=actions.dtype)  # [B, A]
    return ops.sum(ops.where(chosen, values, 0.0), axis=1)


def is_image(space: spaces.Box) -> bool:
    """Whether observations are stacks of pixels: uint8 with three axes."""
    return space.dtype == np.uint8 and len(space.shape) == 3


def _of_image(shape: tuple[int, ...], convolutions: Convolutions) -> list[keras.layers.Layer]:
    layers: list[keras.layers.Layer] = [keras.layers.Rescaling(1.0 / 255.0)]
    sides = list(shape[:2])
    for filters, kernel, stride in convolutions:
        if min(sides) < kernel:
            told = ", ".join(str(list(each)) for each in convolutions)
            raise ConfigurationError(
                f"An image must be uint8 [height, width, channels], large enough for the convolutions {told} "
                f"(filters, kernel, stride; the usual ones need 36 pixels a side), got {shape}."
            )
        sides = [(side - kernel) // stride + 1 for side in sides]
        layers.append(keras.layers.Conv2D(filters, kernel, stride, activation="relu"))
    return [*layers, keras.layers.Flatten()]


@keras.saving.register_keras_serializable("agents")
class DuelingHead(keras.layers.Layer):
    """Action values as a state value plus advantages of mean zero (Wang et al. 2015, arXiv 1511.06581)."""

    def __init__(self, n_actions: int, **kwargs: Any) -> None:
        """Args: n_actions: number of actions."""
        super().__init__(**kwargs)
        self.n_actions = n_actions

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes one kernel for value and advantages together."""
        self.kernel = self.add_weight(shape=(input_shape[-1], 1 + self.n_actions), initializer="glorot_uniform")
        self.bias = self.add_weight(shape=(1 + self.n_actions,), initializer="zeros")

    def call(self, features: Any) -> Any:
        """[B, F] -> [B, A]."""
        both = keras.ops.matmul(features, self.kernel) + self.bias  # [B, 1 + A]
        value, advantages = both[:, :1], both[:, 1:]
        return value + advantages - keras.ops.mean(advantages, axis=1, keepdims=True)

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """The same in NumPy, for acting: [..., F] -> [..., A]."""
        both = features @ weights[0] + weights[1]
        result: Array = both[..., :1] + both[..., 1:] - both[..., 1:].mean(axis=-1, keepdims=True)
        return result

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return {**super().get_config(), "n_actions": self.n_actions}


@keras.saving.register_keras_serializable("agents")
class Constant(keras.layers.Layer):
    """One learned number, whatever comes in."""

    def __init__(self, value: float, **kwargs: Any) -> None:
        """Args: value: what it begins with."""
        super().__init__(**kwargs)
        self.first = value

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the number."""
        self.value = self.add_weight(shape=(1,), initializer=keras.initializers.Constant(self.first))

    def call(self, inputs: Any) -> Any:
        """[B, ...] -> [B, 1]."""
        return keras.ops.zeros((keras.ops.shape(inputs)[0], 1)) + self.value

    def numpy_call(self, inputs: Array, weights: list[Array]) -> Array:
        """The same in NumPy: [..., F] -> [..., 1]."""
        return np.zeros((*inputs.shape[:-1], 1), np.float32) + weights[0]

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return {**super().get_config(), "value": self.first}
