"""Distributions over actions, twice: in NumPy for acting, in Keras operations for losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.backend import keras, ops
from agents.exploration.sampling import gumbel
from agents.networks import of_actions

Array = np.ndarray[Any, Any]

_LOG_SQRT_2PI = 0.5 * float(np.log(2 * np.pi))


class Categorical:
    """Actions 0..A-1 with the probabilities softmax(logits). Parameters are logits [N, A]."""

    @staticmethod
    def sample(logits: Array, rng: np.random.Generator) -> Array:
        """[N] int64, by the Gumbel-max trick: one draw an action whatever comes out."""
        actions: Array = np.argmax(logits + gumbel(logits.shape, rng), axis=1)
        return actions

    @staticmethod
    def mode(logits: Array) -> Array:
        """[N] int64: the most probable actions."""
        actions: Array = np.argmax(logits, axis=1)
        return actions

    @staticmethod
    def log_prob_numpy(logits: Array, actions: Array) -> Array:
        """[N] log-probabilities of the actions [N]."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        chosen = np.take_along_axis(shifted, np.asarray(actions)[:, None], 1)[:, 0]
        return np.asarray(chosen - np.log(np.exp(shifted).sum(axis=1)))

    @staticmethod
    def log_prob(logits: Any, actions: Any) -> Any:
        """[B] log-probabilities, differentiable in the logits."""
        log_probs = ops.log_softmax(logits)  # [B, A]
        return of_actions(log_probs, actions)

    @staticmethod
    def entropy(logits: Any) -> Any:
        """[B] entropies in nats."""
        log_probs = ops.log_softmax(logits)
        return -ops.sum(ops.exp(log_probs) * log_probs, axis=1)

    @staticmethod
    def divergence(logits: Any, others: Any) -> Any:
        """[B] Kullback-Leibler divergences of others from these, differentiable in both, in nats."""
        log_probs = ops.log_softmax(logits)  # [B, A]
        return ops.sum(ops.exp(log_probs) * (log_probs - ops.log_softmax(others)), axis=1)


class DiagonalGaussian:
    """Independent normal actions. Parameters are [N, 2 D]: means, then logarithms of standard deviations."""

    @staticmethod
    def sample(parameters: Array, rng: np.random.Generator) -> Array:
        """[N, D] float32."""
        mean, log_std = np.split(parameters, 2, axis=1)
        return np.asarray(mean + np.exp(log_std) * rng.standard_normal(mean.shape), np.float32)

    @staticmethod
    def mode(parameters: Array) -> Array:
        """[N, D] float32: the means."""
        return np.asarray(np.split(parameters, 2, axis=1)[0], np.float32)

    @staticmethod
    def log_prob_numpy(parameters: Array, actions: Array) -> Array:
        """[N] log-densities of the actions [N, D]."""
        mean, log_std = np.split(parameters, 2, axis=1)
        z = (actions - mean) * np.exp(-log_std)
        return np.asarray(np.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI, axis=1))

    @staticmethod
    def log_prob(parameters: Any, actions: Any) -> Any:
        """[B] log-densities, differentiable in the parameters."""
        mean, log_std = ops.split(parameters, 2, axis=1)
        z = (actions - mean) * ops.exp(-log_std)
        return ops.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI, axis=1)

    @staticmethod
    def entropy(parameters: Any) -> Any:
        """[B] entropies in nats."""
        _, log_std = ops.split(parameters, 2, axis=1)
        return ops.sum(log_std + 0.5 + _LOG_SQRT_2PI, axis=1)

    @staticmethod
    def divergence(parameters: Any, others: Any) -> Any:
        """[B] Kullback-Leibler divergences of others from these, differentiable in both, in nats."""
        mean, log_std = ops.split(parameters, 2, axis=1)
        other_mean, other_log_std = ops.split(others, 2, axis=1)
        distance = ops.square((mean - other_mean) * ops.exp(-other_log_std))  # [B, D]
        narrowing = log_std - other_log_std
        return ops.sum(0.5 * (ops.exp(2.0 * narrowing) + distance - 1.0) - narrowing, axis=1)


class SquashedGaussian:
    """Normal actions that tanh brings into [-1, 1] (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).

    Parameters are [N, 2 D]: means, then logarithms of standard deviations, which count between -20 and 2.
    """

    LOG_STD = (-20.0, 2.0)

    @classmethod
    def sample(cls, parameters: Array, rng: np.random.Generator) -> Array:
        """[N, D] float32."""
        mean, log_std = np.split(parameters, 2, axis=1)
        std = np.exp(np.clip(log_std, *cls.LOG_STD))
        return np.asarray(np.tanh(mean + std * rng.standard_normal(mean.shape)), np.float32)

    @staticmethod
    def mode(parameters: Array) -> Array:
        """[N, D] float32: where the means go."""
        return np.asarray(np.tanh(np.split(parameters, 2, axis=1)[0]), np.float32)

    @classmethod
    def draw(cls, parameters: Any, noise: Any) -> tuple[Any, Any]:
        """Actions [B, D] and their log-densities [B], differentiable in the parameters.

        Args:
            parameters: [B, 2 D].
            noise: [B, D] standard normal numbers.
        """
        mean, log_std = ops.split(parameters, 2, axis=1)
        log_std = ops.clip(log_std, *cls.LOG_STD)
        before = mean + ops.exp(log_std) * noise
        # log(1 - tanh(x)^2), without the loss of all digits where tanh(x) is close to 1.
        squash = 2.0 * (float(np.log(2.0)) - before - ops.softplus(-2.0 * before))
        log_probs = ops.sum(-0.5 * noise * noise - log_std - _LOG_SQRT_2PI - squash, axis=1)
        return ops.tanh(before), log_probs


@keras.saving.register_keras_serializable("agents")
class GaussianHead(keras.layers.Layer):
    """Last layer of a Gaussian policy: a mean that depends on the state, a spread that does not."""

    def __init__(self, n_dimensions: int, initial_log_std: float = 0.0, output_scale: float = 0.01, **kwargs: Any):
        """Args: n_dimensions: D; initial_log_std: of every dimension; output_scale: gain of the means' weights."""
        super().__init__(**kwargs)
        self.n_dimensions = n_dimensions
        self.initial_log_std = initial_log_std
        self.output_scale = output_scale

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the kernel, the bias and the spread."""
        shape = (input_shape[-1], self.n_dimensions)
        self.kernel = self.add_weight(shape=shape, initializer=keras.initializers.Orthogonal(self.output_scale))
        self.bias = self.add_weight(shape=(self.n_dimensions,), initializer="zeros")
        self.log_std = self.add_weight(
            shape=(self.n_dimensions,), initializer=keras.initializers.Constant(self.initial_log_std)
        )

    def call(self, features: Any) -> Any:
        """[B, F] -> [B, 2 D]."""
        mean = ops.matmul(features, self.kernel) + self.bias
        return ops.concatenate([mean, ops.zeros_like(mean) + self.log_std], axis=1)

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """The same in NumPy, for acting: [..., F] -> [..., 2 D]."""
        kernel, bias, log_std = weights
        mean = features @ kernel + bias
        return np.concatenate([mean, np.broadcast_to(log_std, mean.shape)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        own = {"initial_log_std": self.initial_log_std, "output_scale": self.output_scale}
        return {**super().get_config(), "n_dimensions": self.n_dimensions, **own}
