"""Minimisation of convex functions by Newton steps within a trust region (Nocedal and Wright 2006, chapters 4 and 7).

Steps are found by conjugate gradients, which need products with the second derivative only (Steihaug 1983). This
differs from SciPy's `trust-ncg` in two ways. The number of products for a step is bounded: where the second derivative
is nearly singular, conjugate gradients may not converge in float64. And where the function changes by little more than
its rounding errors, steps are judged by its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

LARGEST_RADIUS = 1e4
"""Largest radius of the trust region."""

ROUNDING = 1e-8
"""Changes of the function that are smaller, relative to its value, are computed from gradients."""


class Point(NamedTuple):
    """A point, and a function around it."""

    x: Array  # [K]
    value: float
    gradient: Array  # [K]
    product: Callable[[Array], Array]  # [K] -> [K] product with the second derivative


class Minimum(NamedTuple):
    """Result of a minimisation."""

    point: Point
    n_steps: int  # tried, accepted or not
    converged: bool


def minimum(function: Callable[[Array], Point], start: Array, *, tolerance: float, max_steps: int) -> Minimum:
    """Return a point where no element of the gradient exceeds the tolerance, or the last one that was reached.

    Args:
        function: [K] -> the function around this point. Convex.
        start: [K].
        tolerance: Largest absolute value of the gradient's elements, > 0.
        max_steps: Largest number of steps, >= 0.
    """
    point, radius = function(start), 1.0
    for n_steps in range(max_steps + 1):
        if np.abs(point.gradient).max() <= tolerance:
            return Minimum(point, n_steps, converged=True)
        if n_steps == max_steps:
            break
        step, predicted = _step_within(point, radius, tolerance)
        tried = function(point.x + step)
        reduction = point.value - tried.value
        if predicted <= ROUNDING * max(1.0, abs(point.value)):
            reduction = -0.5 * float((point.gradient + tried.gradient) @ step)  # trapezoidal rule
        ratio = reduction / predicted
        length = float(np.linalg.norm(step))
        if not ratio >= 0.25:  # true of NaN
            radius = 0.25 * length
        elif ratio > 0.75 and length > 0.99 * radius:
            radius = min(2.0 * radius, LARGEST_RADIUS)
        if ratio > 0.01:
            point = tried
    return Minimum(point, max_steps, converged=False)


def _step_within(point: Point, radius: float, tolerance: float) -> tuple[Array, float]:
    """Return a step that nearly minimises the quadratic model within the radius, and the reduction of that model."""
    gradient = point.gradient
    size = float(np.linalg.norm(gradient))
    enough = max(min(0.1, np.sqrt(size)) * size, 0.1 * tolerance)
    step, image = np.zeros_like(gradient), np.zeros_like(gradient)  # of the step, multiplied by the second derivative
    residual, direction = gradient, -gradient
    for _ in range(2 * len(gradient) + 10):
        product = point.product(direction)
        curvature, squared = float(direction @ product), float(residual @ residual)
        length = squared / curvature if curvature > 0.0 else np.inf
        inside = np.isfinite(length) and np.linalg.norm(step + length * direction) < radius
        if not inside:
            length = _length_to_border(step, direction, radius)
        step, image = step + length * direction, image + length * product
        residual = residual + length * product
        if not inside or np.linalg.norm(residual) <= enough:
            break
        direction = float(residual @ residual) / squared * direction - residual
    return step, -float(gradient @ step + 0.5 * step @ image)


def _length_to_border(step: Array, direction: Array, radius: float) -> float:
    """Return the length >= 0 for which `step + length * direction` has the norm `radius`."""
    a, b, c = direction @ direction, step @ direction, step @ step - radius**2
    return float((np.sqrt(max(b * b - a * c, 0.0)) - b) / a)
