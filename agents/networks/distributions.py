"""Distributions over actions: in NumPy for acting, in Keras operations for losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.errors import NonFiniteError, with_cause
from agents.exploration.sampling import gumbel
from agents.networks.builders import gather_actions

Array = np.ndarray[Any, Any]

_LOG_SQRT_2PI = 0.5 * float(np.log(2 * np.pi))

_WITHIN = 1e-6
"""Distance from the bounds of squashed actions at which their density is taken, where they are on the bounds."""


class Categorical:
    """Categorical distribution of actions 0..A-1, softmax(logits). Parameters are logits [N, A].

    A logit of -inf forbids an action: its probability is 0, and its contribution to entropies, divergences and their
    gradients is 0. (0 log 0 is 0 in the limit, but NaN in floating point.)
    """

    @staticmethod
    def sample(logits: Array, rng: np.random.Generator) -> Array:
        """Return [N] int64, by the Gumbel-max trick: one random number per action whatever the result.

        Raises:
            NonFiniteError: All actions of a row are forbidden.
        """
        _check_allowed(logits)
        actions: Array = np.argmax(logits + gumbel(logits.shape, rng), axis=1)
        return actions

    @staticmethod
    def mode(logits: Array) -> Array:
        """Return [N] int64: the most probable actions.

        Raises:
            NonFiniteError: All actions of a row are forbidden.
        """
        _check_allowed(logits)
        actions: Array = np.argmax(logits, axis=1)
        return actions

    @staticmethod
    def log_prob_numpy(logits: Array, actions: Array) -> Array:
        """Return [N] log-probabilities of the actions [N]."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        chosen = np.take_along_axis(shifted, np.asarray(actions)[:, None], 1)[:, 0]
        return np.asarray(chosen - np.log(np.exp(shifted).sum(axis=1)))

    @staticmethod
    def log_prob(logits: Any, actions: Any) -> Any:
        """Return [B] log-probabilities, differentiable in the logits."""
        log_probs = ops.log_softmax(logits)  # [B, A]
        return gather_actions(log_probs, actions)

    @staticmethod
    def entropy(logits: Any) -> Any:
        """Return [B] entropies in nats."""
        log_probs = ops.log_softmax(logits)  # [B, A]
        probs = ops.exp(log_probs)
        return -ops.sum(probs * _zero_if_impossible(probs, log_probs), axis=1)

    @staticmethod
    def divergence(logits: Any, others: Any) -> Any:
        """Return [B] Kullback-Leibler divergences of others from these, differentiable in both, in nats.

        The divergence is infinite where the others forbid an action that these allow.
        """
        log_probs = ops.log_softmax(logits)  # [B, A]
        probs = ops.exp(log_probs)
        other_log_probs = _zero_if_impossible(probs, ops.log_softmax(others))
        return ops.sum(probs * (_zero_if_impossible(probs, log_probs) - other_log_probs), axis=1)


class MultiCategorical:
    """Independent categorical distributions, of actions 0..A_d-1; parameters are concatenated logits, [N, sum(A)].

    Args:
        counts: A_d, the number of actions of each distribution.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = tuple(map(int, counts))
        self._most = max(self.counts)
        within = np.arange(self._most) < np.array(self.counts)[:, None]  # [D, A]
        firsts = np.cumsum(self.counts) - self.counts
        # Position of each logit; distributions of fewer actions are padded with the column of -inf at the end.
        self._places = np.where(within, firsts[:, None] + np.arange(self._most), sum(self.counts))  # [D, A]

    def _rows(self, logits: Array) -> Array:
        """Return the logits [N, sum(A)] as rows [N * D, A], with -inf for missing actions."""
        padded = np.concatenate([logits, np.full((len(logits), 1), -np.inf, logits.dtype)], axis=1)
        rows: Array = padded[:, self._places].reshape(-1, self._most)
        return rows

    def _tensor_rows(self, logits: Any) -> Any:
        """Return the same rows as a differentiable tensor."""
        if set(self.counts) == {self._most}:
            return ops.reshape(logits, (-1, self._most))
        parts = ops.split(logits, np.cumsum(self.counts)[:-1].tolist(), axis=1)
        padded = [
            ops.pad(part, ((0, 0), (0, self._most - count)), constant_values=-np.inf)
            for part, count in zip(parts, self.counts, strict=True)
        ]
        return ops.reshape(ops.stack(padded, axis=1), (-1, self._most))

    def sample(self, logits: Array, rng: np.random.Generator) -> Array:
        """Return [N, D] int64, by the Gumbel-max trick."""
        _check_allowed(self._rows(logits))
        actions: Array = np.argmax(self._rows(logits + gumbel(logits.shape, rng)), axis=1)
        return actions.reshape(len(logits), -1)

    def mode(self, logits: Array) -> Array:
        """Return [N, D] int64: the most probable actions."""
        return Categorical.mode(self._rows(logits)).reshape(len(logits), -1)

    def log_prob_numpy(self, logits: Array, actions: Array) -> Array:
        """Return [N] log-probabilities of the actions [N, D]."""
        each = Categorical.log_prob_numpy(self._rows(logits), np.asarray(actions).ravel())
        return np.asarray(each.reshape(len(logits), -1).sum(axis=1))

    def log_prob(self, logits: Any, actions: Any) -> Any:
        """Return [B] log-probabilities of the actions [B, D], differentiable in the logits."""
        return self._summed(Categorical.log_prob(self._tensor_rows(logits), ops.reshape(actions, (-1,))))

    def entropy(self, logits: Any) -> Any:
        """Return [B] entropies in nats."""
        return self._summed(Categorical.entropy(self._tensor_rows(logits)))

    def divergence(self, logits: Any, others: Any) -> Any:
        """Return [B] Kullback-Leibler divergences of others from these, differentiable in both, in nats."""
        return self._summed(Categorical.divergence(self._tensor_rows(logits), self._tensor_rows(others)))

    def _summed(self, each: Any) -> Any:
        """Sum [B * D] over the distributions to [B]."""
        return ops.sum(ops.reshape(each, (-1, len(self.counts))), axis=1)


def _check_allowed(logits: Array) -> None:
    first = logits[:, 0]
    if math.isfinite(np.vdot(first, first)):  # true of nearly all rows, and much faster than the full check
        return
    forbidden = np.flatnonzero(logits.max(axis=1) == -np.inf)
    if len(forbidden):
        message = f"All actions of row {forbidden[0]} are forbidden: every one of its logits is -inf."
        raise with_cause(NonFiniteError(message), "environment")


def _zero_if_impossible(probs: Any, values: Any) -> Any:
    """Return values [B, A] of possible actions and 0 of the others, without gradients through the latter."""
    return ops.where(probs > 0.0, values, 0.0)


class DiagonalGaussian:
    """Independent normal distributions. Parameters are [N, 2 D]: means, then logarithms of standard deviations."""

    NO_ENTROPY = -0.5 - _LOG_SQRT_2PI
    """Logarithm of the standard deviation with which a dimension has an entropy of 0."""

    @staticmethod
    def sample(parameters: Array, rng: np.random.Generator) -> Array:
        """Return [N, D] float32."""
        mean, log_std = np.split(parameters, 2, axis=1)
        return np.asarray(mean + np.exp(log_std) * rng.standard_normal(mean.shape), np.float32)

    @staticmethod
    def mode(parameters: Array) -> Array:
        """Return [N, D] float32: the means."""
        return np.asarray(np.split(parameters, 2, axis=1)[0], np.float32)

    @staticmethod
    def log_prob_numpy(parameters: Array, actions: Array) -> Array:
        """Return [N] log-densities of the actions [N, D]."""
        mean, log_std = np.split(parameters, 2, axis=1)
        z = (actions - mean) * np.exp(-log_std)
        return np.asarray(np.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI, axis=1))

    @staticmethod
    def log_prob(parameters: Any, actions: Any) -> Any:
        """Return [B] log-densities, differentiable in the parameters."""
        mean, log_std = ops.split(parameters, 2, axis=1)
        z = (actions - mean) * ops.exp(-log_std)
        return ops.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI, axis=1)

    @staticmethod
    def entropy(parameters: Any) -> Any:
        """Return [B] entropies in nats."""
        _, log_std = ops.split(parameters, 2, axis=1)
        return ops.sum(log_std + 0.5 + _LOG_SQRT_2PI, axis=1)

    @staticmethod
    def divergence(parameters: Any, others: Any) -> Any:
        """Return [B] Kullback-Leibler divergences of others from these, differentiable in both, in nats."""
        mean, log_std = ops.split(parameters, 2, axis=1)
        other_mean, other_log_std = ops.split(others, 2, axis=1)
        distance = ops.square((mean - other_mean) * ops.exp(-other_log_std))  # [B, D]
        narrowing = log_std - other_log_std
        return ops.sum(0.5 * (ops.exp(2.0 * narrowing) + distance - 1.0) - narrowing, axis=1)


class SquashedGaussian:
    """Normal distributions squashed into [-1, 1] by tanh (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).

    Parameters are [N, 2 D]: means, then logarithms of standard deviations, clipped to [-20, 2].
    """

    LOG_STD = (-20.0, 2.0)

    @classmethod
    def sample(cls, parameters: Array, rng: np.random.Generator) -> Array:
        """Return [N, D] float32."""
        mean, log_std = np.split(parameters, 2, axis=1)
        std = np.exp(np.clip(log_std, *cls.LOG_STD))
        return np.asarray(np.tanh(mean + std * rng.standard_normal(mean.shape)), np.float32)

    @staticmethod
    def mode(parameters: Array) -> Array:
        """Return [N, D] float32: tanh of the means."""
        return np.asarray(np.tanh(np.split(parameters, 2, axis=1)[0]), np.float32)

    @classmethod
    def log_prob_numpy(cls, parameters: Array, actions: Array) -> Array:
        """Return [N] log-densities of the actions [N, D]; those on the bounds, whose density is 0, as just within."""
        mean, log_std = np.split(parameters, 2, axis=1)
        log_std = np.clip(log_std, *cls.LOG_STD)
        within = np.clip(actions, -1.0 + _WITHIN, 1.0 - _WITHIN)
        z = (np.arctanh(within) - mean) * np.exp(-log_std)
        squash = np.log1p(-within * within)
        return np.asarray(np.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI - squash, axis=1))

    @classmethod
    def log_prob(cls, parameters: Any, actions: Any) -> Any:
        """Return [B] log-densities of actions [B, D], differentiable in the parameters; on the bounds see above."""
        mean, log_std = ops.split(parameters, 2, axis=1)
        log_std = ops.clip(log_std, *cls.LOG_STD)
        within = ops.clip(actions, -1.0 + _WITHIN, 1.0 - _WITHIN)
        z = (ops.arctanh(within) - mean) * ops.exp(-log_std)
        squash = ops.log1p(-within * within)
        return ops.sum(-0.5 * z * z - log_std - _LOG_SQRT_2PI - squash, axis=1)

    @classmethod
    def draw(cls, parameters: Any, noise: Any) -> tuple[Any, Any]:
        """Return actions [B, D] and their log-densities [B], differentiable in the parameters.

        Args:
            parameters: [B, 2 D].
            noise: [B, D] standard normal numbers.
        """
        mean, log_std = ops.split(parameters, 2, axis=1)
        log_std = ops.clip(log_std, *cls.LOG_STD)
        before = mean + ops.exp(log_std) * noise
        # log(1 - tanh(x)^2), without cancellation where tanh(x) is close to 1.
        squash = 2.0 * (float(np.log(2.0)) - before - ops.softplus(-2.0 * before))
        log_probs = ops.sum(-0.5 * noise * noise - log_std - _LOG_SQRT_2PI - squash, axis=1)
        return ops.tanh(before), log_probs


@keras.saving.register_keras_serializable("agents")
class GaussianHead(keras.layers.Layer):
    """Last layer of a Gaussian policy: means depend on the state, standard deviations do not."""

    def __init__(self, n_dimensions: int, initial_log_std: float = 0.0, output_scale: float = 0.01, **kwargs: Any):
        """Args: n_dimensions: D; initial_log_std: of every dimension; output_scale: gain of the means' weights."""
        super().__init__(**kwargs)
        self.n_dimensions = n_dimensions
        self.initial_log_std = initial_log_std
        self.output_scale = output_scale

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the kernel, the bias and the logarithms of standard deviations."""
        shape = (input_shape[-1], self.n_dimensions)
        self.kernel = self.add_weight(shape=shape, initializer=keras.initializers.Orthogonal(self.output_scale))
        self.bias = self.add_weight(shape=(self.n_dimensions,), initializer="zeros")
        self.log_std = self.add_weight(
            shape=(self.n_dimensions,), initializer=keras.initializers.Constant(self.initial_log_std)
        )

    def call(self, features: Any) -> Any:
        """Map [B, F] to [B, 2 D]."""
        mean = ops.matmul(features, self.kernel) + self.bias
        return ops.concatenate([mean, ops.zeros_like(mean) + self.log_std], axis=1)

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy, for acting: [..., F] -> [..., 2 D]."""
        kernel, bias, log_std = weights
        mean = features @ kernel + bias
        return np.concatenate([mean, np.broadcast_to(log_std, mean.shape)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        own = {"initial_log_std": self.initial_log_std, "output_scale": self.output_scale}
        return {**super().get_config(), "n_dimensions": self.n_dimensions, **own}
