"""Builders of the default networks, chosen by the observation space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.backend.tensorflow import keras
from agents.config.network_config import usual_sizes
from agents.environments.images import is_image
from agents.errors import ConfigurationError, unknown_name
from agents.networks.noisy import NoisyDense, NoisyNetwork

Array = np.ndarray[Any, Any]
Convolutions = Sequence[Sequence[int]]

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, kernel and stride in Mnih et al. 2015 ("Human-level control through deep reinforcement learning")."""


MOST_UNITS = 1_000_000
"""Maximum number of units of a layer, against mistyped numbers."""


def network(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int] | None,
    outputs: int,
    *,
    activation: str = "tanh",
    convolutions: Convolutions | None = None,
    output_scale: float | None = None,
    head: keras.layers.Layer | None = None,
    behind: Sequence[keras.layers.Layer] = (),
    name: str | None = None,
) -> keras.Sequential:
    """Return a network from observations to `outputs` numbers: dense layers for vectors, convolutions first for images.

    Args:
        observation_space: Box; uint8 with three axes is an image [height, width, channels].
        hidden_sizes: Units of the hidden dense layers; None for the defaults (`agents.config.network_config`).
        outputs: Size of the last axis of the result.
        activation: Keras activation of the hidden layers.
        convolutions: Filters, kernel and stride of each convolution, for images. Defaults to None: those of Mnih et al.
            2015.
        output_scale: Gain of an orthogonal initialisation of the last layer (and sqrt(2), orthogonal, before it,
            convolutions included), as policy-gradient methods use it (Andrychowicz et al. 2020, arXiv 2006.05990);
            None for Keras's default initialisation.
        head: The last layer, instead of a dense one.
        behind: Layers after the last one, which convert its outputs.
        name: Name of the network.

    Raises:
        ConfigurationError: An image too small for the convolutions, layers without units, or an unknown activation.
    """
    layers = body(observation_space, hidden_sizes, activation, convolutions, orthogonal=output_scale is not None)
    return headed(observation_space, layers, outputs, output_scale=output_scale, head=head, behind=behind, name=name)


def body(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int] | None,
    activation: str,
    convolutions: Convolutions | None = None,
    *,
    orthogonal: bool = False,
) -> list[keras.layers.Layer]:
    """Return the layers of a network except for the last one; see `network`. Several networks may share them."""
    hidden_sizes = _checked(observation_space, hidden_sizes, activation)
    layers = _features(observation_space, convolutions, orthogonal)
    for size in hidden_sizes:
        layers.append(keras.layers.Dense(size, activation=activation, kernel_initializer=_initializer(orthogonal)))
    return layers


def headed(
    observation_space: spaces.Box,
    layers: Sequence[keras.layers.Layer],
    outputs: int,
    *,
    output_scale: float | None = None,
    head: keras.layers.Layer | None = None,
    behind: Sequence[keras.layers.Layer] = (),
    name: str | None = None,
) -> keras.Sequential:
    """Return a network of the given layers and a last one; see `network`."""
    if head is None:
        init = keras.initializers.Orthogonal(output_scale) if output_scale is not None else "glorot_uniform"
        head = keras.layers.Dense(outputs, kernel_initializer=init)
    return keras.Sequential([keras.Input(observation_space.shape), *layers, head, *behind], name=name)


def noisy_network(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int] | None,
    outputs: int,
    *,
    sigma: float,
    activation: str = "relu",
    convolutions: Convolutions | None = None,
    head: keras.layers.Layer | None = None,
    behind: Sequence[keras.layers.Layer] = (),
    name: str | None = None,
) -> NoisyNetwork:
    """Return a network as of `network`, with noisy dense layers; `agents.networks.noisy` explains its calls.

    Args:
        observation_space: As in `network`.
        hidden_sizes: Units of the hidden noisy layers; None as in `network`.
        outputs: Units of the last layer.
        sigma: Initial scale of the noise; see `NoisyDense`.
        activation: Keras activation of the hidden layers.
        convolutions: As in `network`.
        head: As in `network`, instead of a noisy layer.
        behind: As in `network`.
        name: Name of the network.

    Raises:
        ConfigurationError: As in `network`.
    """
    hidden_sizes = _checked(observation_space, hidden_sizes, activation)
    layers: list[keras.layers.Layer] = [
        keras.Input(observation_space.shape),
        *_features(observation_space, convolutions),
    ]
    for size in hidden_sizes:
        layers += [NoisyDense(size, sigma), keras.layers.Activation(activation)]
    return NoisyNetwork([*layers, head or NoisyDense(outputs, sigma), *behind], name=name)


def critic_network(
    observation_space: spaces.Box,
    hidden_sizes: Sequence[int] | None,
    n_dimensions: int,
    *,
    activation: str = "relu",
    convolutions: Convolutions | None = None,
    name: str | None = None,
) -> keras.Model:
    """Return a network from ``[observations, actions]`` to one value, [B, 1]; actions enter after the convolutions.

    Args:
        observation_space: As in `network`.
        hidden_sizes: Units of the hidden dense layers; None for the defaults (`agents.config.network_config`).
        n_dimensions: Dimensions of an action, which is [B, D].
        activation: Keras activation of the hidden layers.
        convolutions: As in `network`.
        name: Name of the network.

    Raises:
        ConfigurationError: As in `network`.
    """
    hidden_sizes = _checked(observation_space, hidden_sizes, activation)
    observations, actions = keras.Input(observation_space.shape), keras.Input((n_dimensions,))
    x = observations
    for layer in _features(observation_space, convolutions):
        x = layer(x)
    x = keras.layers.Concatenate()([x, actions])
    for size in hidden_sizes:
        x = keras.layers.Dense(size, activation=activation)(x)
    return keras.Model([observations, actions], keras.layers.Dense(1)(x), name=name)


def constant(observation_space: spaces.Box, value: float, *, name: str | None = None) -> keras.Sequential:
    """Return a network that returns one learned number, [B, 1], for every observation."""
    return keras.Sequential([keras.Input(observation_space.shape), Constant(value)], name=name)


def _initializer(orthogonal: bool) -> Any:
    """Return a new initializer of a hidden layer, as layers that share one would start with equal weights."""
    return keras.initializers.Orthogonal(np.sqrt(2)) if orthogonal else "glorot_uniform"


def _features(
    observation_space: spaces.Box, convolutions: Convolutions | None, orthogonal: bool = False
) -> list[keras.layers.Layer]:
    """Return the layers before the dense layers."""
    if is_image(observation_space):
        return _of_image(observation_space.shape, NATURE if convolutions is None else convolutions, orthogonal)
    if convolutions is not None:
        raise ConfigurationError(
            f"convolutions are for images (uint8 [height, width, channels]), not for {observation_space}."
        )
    return [keras.layers.Flatten()] if len(observation_space.shape) != 1 else []


def _checked(space: spaces.Box, hidden_sizes: Sequence[int] | None, activation: str) -> Sequence[int]:
    """Return the sizes of the hidden layers, the defaults for None."""
    return checked_sizes(usual_sizes(space) if hidden_sizes is None else hidden_sizes, activation)


def checked_sizes(hidden_sizes: Sequence[int], activation: str) -> Sequence[int]:
    """Return the sizes of hidden layers; raise `ConfigurationError` for impossible ones, or an unknown activation."""
    several = isinstance(hidden_sizes, Iterable) and not isinstance(hidden_sizes, str)
    given: Any = list(hidden_sizes) if several else hidden_sizes
    sizes = given if several else [None]
    if not all(isinstance(size, int | np.integer) and 1 <= size <= MOST_UNITS for size in sizes):
        raise ConfigurationError(
            f"hidden_sizes must be a list of whole numbers >= 1 and <= {MOST_UNITS:,}, such as [64, 64], got {given!r}."
        )
    try:
        keras.activations.get(activation)
    except ValueError:
        known = [name for name in dir(keras.activations) if not name.startswith("_")]
        raise unknown_name("activation", activation, {*known} - {"get", "serialize", "deserialize"}) from None
    return hidden_sizes


def gather_actions(values: Any, actions: Any) -> Any:
    """Return the values of each row's action: [B, A] or [B, A, Z], and [B] -> [B] or [B, Z].

    Computed as a masked sum, whose gradient is a mask; the gradient of a gather is a scatter, a slow
    loop of XLA on a CPU.
    """
    ops = keras.ops
    chosen = ops.expand_dims(actions, 1) == ops.arange(values.shape[1], dtype=actions.dtype)  # [B, A]
    if len(values.shape) == 3:
        chosen = ops.expand_dims(chosen, 2)
    return ops.sum(ops.where(chosen, values, 0.0), axis=1)


of_actions = gather_actions
"""Deprecated alias of `gather_actions`."""


def _of_image(shape: tuple[int, ...], convolutions: Convolutions, orthogonal: bool) -> list[keras.layers.Layer]:
    layers: list[keras.layers.Layer] = [keras.layers.Rescaling(1.0 / 255.0)]
    sides = list(shape[:2])
    for filters, kernel, stride in convolutions:
        if min(sides) < kernel:
            listed = ", ".join(str(list(each)) for each in convolutions)
            raise ConfigurationError(
                f"An image must be uint8, large enough for the convolutions {listed} (filters, kernel, stride; the "
                f"default ones need 36 pixels a side), got {shape} as [height, width, channels]: give other "
                f"convolutions (such as convolutions=[[16, 3, 1]]), or flatten the image with "
                f"gymnasium.wrappers.FlattenObservation."
            )
        sides = [(side - kernel) // stride + 1 for side in sides]
        init = _initializer(orthogonal)
        layers.append(keras.layers.Conv2D(filters, kernel, stride, activation="relu", kernel_initializer=init))
    return [*layers, keras.layers.Flatten()]


@keras.saving.register_keras_serializable("agents")
class Atoms(keras.layers.Layer):
    """Layer that splits concatenated outputs of each action into an axis of their own."""

    def __init__(self, n_atoms: int, **kwargs: Any) -> None:
        """Args: n_atoms: outputs per action."""
        super().__init__(**kwargs)
        self.n_atoms = n_atoms

    def call(self, outputs: Any) -> Any:
        """Map [B, A * Z] to [B, A, Z]."""
        return keras.ops.reshape(outputs, (-1, outputs.shape[1] // self.n_atoms, self.n_atoms))

    def numpy_call(self, outputs: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., A * Z] -> [..., A, Z]."""
        return outputs.reshape(*outputs.shape[:-1], -1, self.n_atoms)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "n_atoms": self.n_atoms}


@keras.saving.register_keras_serializable("agents")
class Constant(keras.layers.Layer):
    """Layer that returns one learned number for every input."""

    def __init__(self, value: float, **kwargs: Any) -> None:
        """Args: value: initial value."""
        super().__init__(**kwargs)
        self.first = value

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the variable."""
        self.value = self.add_weight(shape=(1,), initializer=keras.initializers.Constant(self.first))

    def call(self, inputs: Any) -> Any:
        """Map [B, ...] to [B, 1]."""
        return keras.ops.zeros((keras.ops.shape(inputs)[0], 1)) + self.value

    def numpy_call(self, inputs: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., F] -> [..., 1]."""
        return np.zeros((*inputs.shape[:-1], 1), np.float32) + weights[0]

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "value": self.first}
