"""Choose one action per row from an [N, A] array of action values, logits or weights: the arithmetic of policies.

All functions are pure and work on all rows at once; random numbers are arguments. An action value of -inf marks a
forbidden action of that row, which is never chosen.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.errors import NonFiniteError

Values = npt.NDArray[np.float64]
Actions = npt.NDArray[np.int64]


def check_values(values: npt.NDArray[Any]) -> tuple[Values, Values]:
    """Check action values once, where they enter.

    Args:
        values: Action values or logits, [N, A] with A >= 1. May hold -inf for actions that are not allowed, as long as
            every row has one that is.

    Returns:
        The values as float64, [N, A], and each row's largest one, [N, 1].

    Raises:
        ValueError: The shape is not [N, A].
        NonFiniteError: A row holds NaN or +inf (its network has diverged) or nothing but -inf.
    """
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 2 or checked.shape[1] == 0:
        raise ValueError(f"action values must have the shape [N, A] with A >= 1, got {list(checked.shape)}")
    best = checked.max(axis=1, keepdims=True)  # [N, 1]; NaN if a row has one
    if not np.isfinite(best).all():
        row = int(np.flatnonzero(~np.isfinite(best[:, 0]))[0])
        if np.isneginf(best[row, 0]):
            problem = "hold only -inf: every action is forbidden"
        else:
            problem = f"contain {'NaN' if np.isnan(best[row, 0]) else '+inf'}: the network has diverged"
        raise NonFiniteError(f"action values of row {row} {problem} ({checked[row].tolist()})")
    return checked, best


def softmax_weights(values: Values, best: Values, temperature: float = 1.0) -> Values:
    """Return exp((value - best) / temperature): softmax probabilities up to a factor per row.

    The largest value is subtracted first, so that no scale overflows.

    Args:
        values: [N, A].
        best: Each row's largest value, [N, 1].
        temperature: > 0; higher temperatures make the weights more equal.

    Returns:
        Weights in [0, 1], [N, A], 1 for the best action.
    """
    with np.errstate(over="ignore", under="ignore"):  # the weight of a far worse action underflows to 0, as it should
        weights: Values = np.exp((values - best) / temperature)
    return weights


def boltzmann_weights(values: Values, best: Values, temperature: float, clip: float) -> Values:
    """Return softmax weights that are at least exp(-clip) for every allowed action.

    Args:
        values: [N, A]; -inf where an action is not allowed.
        best: Each row's largest value, [N, 1].
        temperature: > 0.
        clip: Bound on the exponent, > 0.

    Returns:
        Weights in [0, 1], [N, A]; 0 where an action is not allowed.
    """
    weights = np.maximum(softmax_weights(values, best, temperature), math.exp(-clip))
    return np.where(np.isneginf(values), 0.0, weights)


def categorical(weights: Values, uniforms: Values) -> Actions:
    """Choose one action per row with probability proportional to its weight, by inverting the cumulative sum.

    Args:
        weights: >= 0 with a positive sum per row, [N, A]. An action of weight 0 is never chosen.
        uniforms: Uniform numbers in [0, 1), [N].

    Returns:
        Actions, [N].
    """
    cumulative = np.cumsum(weights, axis=1)  # [N, A]
    threshold = uniforms[:, None] * cumulative[:, -1:]  # [N, 1]; below the total even when rounded, as u <= 1 - 2^-53
    actions: Actions = np.argmax(cumulative > threshold, axis=1)
    return actions


def uniform(values: Values, uniforms: Values) -> Actions:
    """Choose one allowed action per row, all equally likely.

    Args:
        values: [N, A]; -inf where an action is not allowed.
        uniforms: Uniform numbers in [0, 1), [N].

    Returns:
        Actions, [N].
    """
    allowed = values > -np.inf
    if not allowed.all():
        return categorical(allowed.astype(np.float64), uniforms)
    actions: Actions = (uniforms * values.shape[1]).astype(np.int64)  # < A even when rounded, as u <= 1 - 2^-53
    return actions


def gumbel(shape: tuple[int, ...], rng: np.random.Generator, eps: float = 1e-20) -> Values:
    """Draw standard Gumbel numbers, -log(-log(u)), from exactly one uniform number each.

    `Generator.gumbel` may draw again, which would make the length of the stream depend on the outcome.

    Args:
        shape: Shape of the result.
        rng: Source of random numbers.
        eps: u is kept within [eps, 1 - eps], which keeps both logarithms finite.
    """
    draws: Values = -np.log(-np.log(np.clip(rng.random(shape), eps, 1.0 - eps)))
    return draws
