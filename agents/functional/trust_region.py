"""Steps within a trust region, as pure functions on vectors: conjugate gradients and a backtracking line search.

Everything is made of TensorFlow operations with shapes that are known, so that all of it can be part of a compiled
update, under XLA too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agents.backend.tensorflow import tf

Product = Callable[[Any], Any]
"""Vector [n] -> matrix times vector [n], for a matrix that is nowhere written down."""


class Found(NamedTuple):
    """Where a line search ended."""

    point: Any  # [n] the first that was accepted, or where the search began
    gain: Any  # by how much the value is greater there; 0 where none was accepted
    distance: Any  # from where the search began; 0 where none was accepted
    accepted: Any  # bool: whether one was


def conjugate_gradients(product: Product, b: Any, max_steps: int, tolerance: float = 1e-10) -> Any:
    """Solves A x = b without A (Hestenes and Stiefel 1952).

    Args:
        product: Multiplies with A, which is symmetric and positive definite.
        b: [n].
        max_steps: Most multiplications.
        tolerance: Squared length of b - A x at which x is good enough. Defaults to `1e-10`.

    Returns:
        [n] x, beginning from zero.
    """

    def going(k: Any, x: Any, residual: Any, direction: Any, squared: Any) -> Any:
        return tf.logical_and(k < max_steps, squared > tolerance)

    def body(k: Any, x: Any, residual: Any, direction: Any, squared: Any) -> tuple[Any, ...]:
        image = product(direction)
        length = squared / tf.reduce_sum(direction * image)
        x, residual = x + length * direction, residual - length * image
        newly = tf.reduce_sum(tf.square(residual))
        return k + 1, x, residual, residual + newly / squared * direction, newly

    start = (tf.constant(0), tf.zeros_like(b), b, b, tf.reduce_sum(tf.square(b)))
    return tf.while_loop(going, body, start, parallel_iterations=1)[1]


def largest_step(gradient: Any, product: Product, limit: Any, max_steps: int) -> Any:
    """The step that gains most within a distance, where the gain is linear and the distance quadratic.

    Args:
        gradient: [n] of what is to be gained.
        product: Multiplies with the matrix F of the distance: a step s is 1/2 s F s long.
        limit: The distance.
        max_steps: Of conjugate gradients.

    Returns:
        [n] in the direction of the inverse of F times the gradient, and zero where that is.
    """
    direction = conjugate_gradients(product, gradient, max_steps)
    curvature = tf.reduce_sum(direction * product(direction))
    scale = tf.sqrt(2.0 * limit / tf.where(curvature > 0.0, curvature, 1.0))
    return scale * direction


def line_search(
    evaluate: Callable[[Any], tuple[Any, Any]], start: Any, step: Any, *, limit: Any, shrinking: Any, max_tries: int
) -> Found:
    """Shortens a step until the value is truly greater, within the distance.

    Args:
        evaluate: Point [n] -> its value, and its distance from the start.
        start: [n].
        step: [n] the first to be tried.
        limit: Largest distance.
        shrinking: Factor by which the step becomes shorter, below 1.
        max_tries: How many steps are tried at most, an integer.
    """
    before, _ = evaluate(start)

    def going(k: Any, share: Any, found: Found) -> Any:
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
    found: Found = tf.while_loop(going, body, first, parallel_iterations=1)[2]
    return found
