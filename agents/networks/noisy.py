"""Noisy networks with factorised Gaussian noise (Fortunato et al. 2017, arXiv 1706.10295).

The paper draws noise inside the layers. Here noise is an input of the network, [N, n_noise], which the caller draws
from its own stream (`draw_noise`), so that the same seed gives the same noise wherever a network runs. Without noise a
network computes with the means of its weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.networks.inference import noise_of, split_noise

Array = np.ndarray[Any, Any]


def draw_noise(rng: np.random.Generator, n_rows: int, n_noise: int) -> Array:
    """Return noise for networks, [n_rows, n_noise] float32: sign(x) sqrt(|x|) of normal numbers x."""
    normal = rng.standard_normal((n_rows, n_noise)).astype(np.float32)
    noise: Array = np.copysign(np.sqrt(np.abs(normal)), normal)
    return noise


@keras.saving.register_keras_serializable("agents")
class NoisyDense(keras.layers.Layer):
    """Linear layer with noise of learned scale on each weight.

    Args:
        units: Size of the last axis of the result.
        sigma: Initial scale of the noise, times the square root of the number of inputs. Defaults to 0.5.
    """

    def __init__(self, units: int, sigma: float = 0.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.sigma = sigma

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the means of kernel and bias, and the scales of their noise."""
        inputs = input_shape[-1]
        self.n_noise = inputs + self.units
        bound = 1.0 / math.sqrt(inputs)
        mean = keras.initializers.RandomUniform(-bound, bound)
        size = keras.initializers.Constant(self.sigma * bound)
        self.kernel = self.add_weight(shape=(inputs, self.units), initializer=mean)
        self.bias = self.add_weight(shape=(self.units,), initializer=mean.clone())
        self.kernel_sigma = self.add_weight(shape=(inputs, self.units), initializer=size)
        self.bias_sigma = self.add_weight(shape=(self.units,), initializer=size)

    def call(self, inputs: Any, noise: Any = None) -> Any:
        """Map [B, F] to [B, units], with noise [B or 1, F + units]."""
        means = ops.matmul(inputs, self.kernel) + self.bias
        if noise is None:
            return means
        of_inputs, of_outputs = noise[:, : -self.units], noise[:, -self.units :]
        # The noise of a weight is the product of its input's and its output's noise, so no matrix is needed.
        return means + of_outputs * (ops.matmul(inputs * of_inputs, self.kernel_sigma) + self.bias_sigma)

    def numpy_call(self, inputs: Array, weights: list[Array], noise: Array | None = None) -> Array:
        """Compute the same in NumPy, for acting: [..., F] -> [..., units]."""
        kernel, bias, kernel_sigma, bias_sigma = weights
        means: Array = inputs @ kernel + bias
        if noise is None:
            return means
        of_inputs, of_outputs = noise[..., : -self.units], noise[..., -self.units :]
        noisy: Array = means + of_outputs * ((inputs * of_inputs) @ kernel_sigma + bias_sigma)
        return noisy

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "units": self.units, "sigma": self.sigma}


@keras.saving.register_keras_serializable("agents")
class NoisyNetwork(keras.Sequential):
    """`keras.Sequential` that passes each noisy layer its own part of the noise."""

    @property
    def n_noise(self) -> int:
        """Numbers of noise per row."""
        return sum(map(noise_of, self.layers))

    def call(self, inputs: Any, training: Any = None, mask: Any = None, noise: Any = None) -> Any:
        """Map [B, ...] to [B, outputs], with noise [B or 1, n_noise]."""
        if noise is None:
            return super().call(inputs, training=training, mask=mask)
        x = inputs
        for layer, own in zip(self.layers, split_noise(noise, map(noise_of, self.layers)), strict=True):
            x = layer(x) if own is None else layer(x, noise=own)
        return x
