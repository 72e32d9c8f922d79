"""Gaussian process over hyperparameters and time: Parker-Holder et al. 2020, arXiv 2002.02518, equation 5.

The covariance of two observations is a squared exponential of the distance of their hyperparameters, times
(1 - forgetting)^(|t - t'| / 2): what was observed long ago says less about now.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

Array = np.ndarray[Any, Any]

LENGTH_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Length scales among which the likelihood chooses, in widths of the searched range."""

FORGETTING = (0.01, 0.1, 0.3)
"""Rates of forgetting among which the likelihood chooses."""

NOISES = (0.05, 0.2, 0.6)
"""Variances of the noise among which the likelihood chooses; observations have variance 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Covariance of observations.

    Attributes:
        length_scale: Length scale of the squared exponential, > 0.
        forgetting: Share of the correlation that is lost in two time steps, 0 to below 1.
        noise: Variance of the noise of an observation, > 0.
    """

    length_scale: float
    forgetting: float
    noise: float

    def __call__(self, points: Array, times: Array, others: Array, other_times: Array) -> Array:
        """Return the covariance of noiseless values, [N, M].

        Args:
            points: Hyperparameters, each scaled to 0..1, [N, D].
            times: Times, [N].
            others: Hyperparameters, [M, D].
            other_times: Times, [M].
        """
        distances = ((points[:, None, :] - others[None, :, :]) ** 2).sum(axis=-1)  # [N, M]
        ages = np.abs(times[:, None] - other_times[None, :])  # [N, M]
        decay: Array = np.exp(-distances / (2.0 * self.length_scale**2)) * (1.0 - self.forgetting) ** (ages / 2.0)
        return decay


class Observations(NamedTuple):
    """N observations.

    Attributes:
        points: Hyperparameters, each scaled to 0..1, [N, D].
        times: Times, [N].
        values: Values with mean 0 and variance 1, [N].
    """

    points: Array
    times: Array
    values: Array


class Posterior(NamedTuple):
    """Mean and standard deviation of the noiseless value at M points, [M] each."""

    mean: Array
    deviation: Array


def posterior(kernel: Kernel, seen: Observations, at: Array, now: float, pending: Array | None = None) -> Posterior:
    """Return the posterior at M points.

    Args:
        kernel: The kernel.
        seen: Observations.
        at: Points to predict, [M, D].
        now: Their time.
        pending: Further points [K, D] at that time whose values are not known yet. They reduce the deviation around
            them and leave the mean as it is. Defaults to none.
    """
    points, times, at_times = seen.points, seen.times, np.full(len(at), now)
    solve = _Solver(kernel, points, times)
    mean = kernel(at, at_times, points, times) @ solve(seen.values)
    if pending is not None and len(pending):
        points = np.concatenate([points, pending])
        times = np.concatenate([times, np.full(len(pending), now)])
        solve = _Solver(kernel, points, times)
    between = kernel(at, at_times, points, times)  # [M, N + K]
    variance = 1.0 - np.einsum("mn,nm->m", between, solve(between.T))
    return Posterior(mean, np.sqrt(np.maximum(variance, 0.0)))


class _Solver:
    """Solves linear equations with the covariance of noisy observations."""

    def __init__(self, kernel: Kernel, points: Array, times: Array) -> None:
        covariance = kernel(points, times, points, times) + kernel.noise * np.eye(len(points))
        self.factor = np.linalg.cholesky(covariance)

    def __call__(self, right: Array) -> Array:
        found: Array = cho_solve((self.factor, True), right)
        return found


def log_likelihood(kernel: Kernel, seen: Observations) -> float:
    """Return the logarithm of the marginal likelihood of observations."""
    solve, values = _Solver(kernel, seen.points, seen.times), seen.values
    log_determinant = 2.0 * np.log(np.diag(solve.factor)).sum()
    return float(-0.5 * (values @ solve(values) + log_determinant + len(values) * math.log(2.0 * math.pi)))


def fitted(seen: Observations) -> Kernel:
    """Return the kernel of the largest marginal likelihood, among a grid; the first one of equal ones."""
    grid = itertools.product(LENGTH_SCALES, FORGETTING, NOISES)
    kernels = [Kernel(length_scale=scale, forgetting=lost, noise=noise) for scale, lost, noise in grid]
    return max(kernels, key=lambda kernel: log_likelihood(kernel, seen))
