"""Retrace: off-policy targets for action values (Munos et al. 2016, arXiv 1606.02647).

Written in TensorFlow operations, because values are recomputed from the networks in each gradient step.
"""

from __future__ import annotations

from typing import Any

from agents.backend.tensorflow import ops, tf


def retrace(
    *,
    rewards: Any,
    taken: Any,
    next_values: Any,
    ratios: Any,
    terminated: Any,
    truncated: Any,
    gamma: Any,
) -> Any:
    """Return targets for the values of the actions taken, with lambda = 1.

    Each temporal difference is added to the targets of earlier steps of the trajectory, weighted by the product of the
    truncated importance ratios min(1, ratio) between them. A termination ends both the bootstrap and the sum; a
    truncation ends the sum only, and its step still bootstraps from the value of the final observation. The last step
    of the array bootstraps in the same way.

    Args:
        rewards: [T, N].
        taken: [T, N] values of the observations' actions, Q(x, a).
        next_values: [T, N] values of the true successors, V(x') (of final observations where an episode ended).
        ratios: [T, N] current probability of the action divided by its probability when taken; truncated at 1.
        terminated: [T, N] bool.
        truncated: [T, N] bool.
        gamma: Discount, 0 to 1.

    Returns:
        [T, N].
    """
    ends = ops.logical_or(terminated, truncated)
    base = rewards + gamma * ops.where(terminated, 0.0, next_values)
    going = ops.where(ends, 0.0, gamma)
    weights, taken = ops.minimum(ratios, 1.0), ops.convert_to_tensor(taken)
    n_steps, *columns = rewards.shape
    written = tf.TensorArray(rewards.dtype, size=n_steps, element_shape=columns)

    def body(t: Any, coming: Any, written: Any) -> tuple[Any, Any, Any]:
        # `coming` is the weighted target of the next step minus its value, [N].
        target = base[t] + going[t] * coming
        return t - 1, weights[t] * (target - taken[t]), written.write(t, target)

    # A loop, because XLA takes seconds to compile the unrolled steps.
    start = (tf.constant(n_steps - 1), tf.zeros_like(taken[0]), written)
    _, _, written = tf.while_loop(lambda t, *_: t >= 0, body, start, parallel_iterations=1)
    return written.stack()
