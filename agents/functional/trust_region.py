"""Steps within a trust region, as pure functions on vectors: conjugate gradients and a backtracking line search.

All functions consist of TensorFlow operations with static shapes, so that they can be part of an update that
XLA compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agents.backend.tensorflow import tf

Product = Callable[[Any], Any]
"""Vector [n] -> matrix times vector [n], for a matrix that is never stored."""


class Found(NamedTuple):
    """Result of a line search."""

    point: Any  # [n] the first accepted point, or the start
    gain: Any  # increase of the value; 0 if no point was accepted
    distance: Any  # from the start; 0 if no point was accepted
    accepted: Any  # bool: whether a point was accepted


def conjugate_gradients(product: Product, b: Any, max_steps: int, tolerance: float = 1e-10) -> Any:
    """Solve A x = b given only products with A (Hestenes and Stiefel 1952).

    Args:
        product: Multiplication with A, which is symmetric and positive definite.
        b: [n].
        max_steps: Maximum number of multiplications.
        tolerance: Squared norm of b - A x below which the iteration stops. Defaults to `1e-10`.

    Returns:
        [n] x, with iterations starting from zero.
    """

    def condition(k: Any, x: Any, residual: Any, direction: Any, squared: Any) -> Any:
        return tf.logical_and(k < max_steps, squared > tolerance)

    def body(k: Any, x: Any, residual: Any, direction: Any, squared: Any) -> tuple[Any, ...]:
        image = product(direction)
        length = squared / tf.reduce_sum(direction * image)
        x, residual = x + length * direction, residual - length * image
        newly = tf.reduce_sum(tf.square(residual))
        return k + 1, x, residual, residual + newly / squared * direction, newly

    start = (tf.constant(0), tf.zeros_like(b), b, b, tf.reduce_sum(tf.square(b)))
    return tf.while_loop(condition, body, start, parallel_iterations=1)[1]


def largest_step(gradient: Any, product: Product, limit: Any, max_steps: int) -> Any:
    """Return the step of largest gain within a distance, where the gain is linear and the distance quadratic.

    Args:
        gradient: [n] gradient of the gain.
        product: Multiplication with the matrix F of the distance: the distance of a step s is 1/2 s F s.
        limit: Largest distance.
        max_steps: Maximum number of conjugate gradient steps.

    Returns:
        [n] in the direction of the inverse of F times the gradient; zero for a zero gradient.
    """
    direction = conjugate_gradients(product, gradient, max_steps)
    curvature = tf.reduce_sum(direction * product(direction))
    scale = tf.sqrt(2.0 * limit / tf.where(curvature > 0.0, curvature, 1.0))
    return scale * direction


def line_search(
    evaluate: Callable[[Any], tuple[Any, Any]], start: Any, step: Any, *, limit: Any, shrinking: Any, max_tries: int
) -> Found:
    """Shorten a step until the value increases and the distance is within the limit.

    Args:
        evaluate: Point [n] -> value, and distance from the start.
        start: [n].
        step: [n] first step to try.
        limit: Largest distance.
        shrinking: Factor that shortens the step after each try, below 1.
        max_tries: Maximum number of steps tried, an integer.
    """
    before, _ = evaluate(start)

    def condition(k: Any, share: Any, found: Found) -> Any:
        return tf.logical_and(k < max_tries, tf.logical_not(found.accepted))

    def body(k: Any, share: Any, found: Found) -> tuple[Any, Any, Found]:
        point = start + share * step
        value, distance = evaluate(point)
        gain = value - before
        accepted = tf.logical_and(gain > 0.0, distance <= limit)  # neither is true of NaN
        tried = Found(point, gain, distance, accepted)
        chosen = Found(*(tf.where(accepted, new, old) for new, old in zip(tried, found, strict=True)))
        return k + 1, share * shrinking, chosen

    nowhere = Found(tf.identity(start), tf.constant(0.0), tf.constant(0.0), tf.constant(False))
    first = (tf.constant(0), tf.constant(1.0), nowhere)
    found: Found = tf.while_loop(condition, body, first, parallel_iterations=1)[2]
    return found
