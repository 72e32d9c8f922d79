"""Value of a run from its episodes, and of several seeds together. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from studies.errors import StudyError


def mean_of_seeds(values: ArrayLike, axis: int = -1) -> Any:
    """Return the value of a candidate from the values of its seeds: their mean, for any number of seeds.

    This is the one estimator of the product: of what is reported to Optuna and at rungs, of rankings, confirmations,
    intervals and reports. It was chosen by measurement (`benchmarks/results/estimators.md`):

    - It is unbiased, so values over different numbers of seeds are comparable. Where a quarter of the runs collapse,
      the interquartile mean with fractional weights is too low by 18% of the range over three seeds, 13% over five and
      9% over eight, beside the same over ever more seeds.
    - It chooses better. Over the tables of finished runs, the pick by the means of five seeds is 6.3% of the range
      worse than the best in expectation, by interquartile means 8.0%; with eight seeds 4.4% and 8.8%. It is better,
      too, where the pick is judged by the interquartile mean of other seeds. The reason is collapses: the interquartile
      mean leaves out most of a quarter of bad runs, and so cannot tell an unreliable candidate from a reliable one.
    - It is what a long run is worth: the expected return of one further run.

    Args:
        values: [..., n], n >= 1.
        axis: Axis of the values. Defaults to the last.

    Returns:
        The mean; NaN if any value is NaN.
    """
    return np.mean(np.asarray(values, np.float64), axis=axis)


def sign_of(direction: str) -> float:
    """Return the factor by which values are higher the better they are: 1 for `maximize`, -1 for `minimize`."""
    return 1.0 if direction == "maximize" else -1.0


def spread_of_seeds(values: Sequence[float]) -> float:
    """Return the sample standard deviation over seeds, divided by n - 1.

    It is NaN with fewer than two seeds, or if one is not finite.

    Args:
        values: [n].
    """
    given = np.asarray(values, np.float64)
    return float(given.std(ddof=1)) if given.size > 1 and np.isfinite(given).all() else math.nan


def iqm(values: ArrayLike, axis: int = -1) -> Any:
    """Return the interquartile mean: the mean without the lowest and the highest quarter.

    Earlier versions valued candidates by it; see `mean_of_seeds`. Agarwal et al. 2021 (arXiv 2108.13264).

    For fewer than four values it is the mean; NaN if any value is NaN.

    Args:
        values: [..., n], n >= 1.
        axis: Axis of the values. Defaults to the last.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    n = ordered.shape[axis]
    middle = np.take(ordered, np.arange(n // 4, n - n // 4), axis=axis).mean(axis=axis)
    # NaN is sorted to the end, where it would be trimmed away.
    return np.where(np.isnan(np.take(ordered, -1, axis=axis)), np.nan, middle)[()]


def iqm_of_population(values: ArrayLike, axis: int = -1) -> Any:
    """Return the interquartile mean of the population: the mean of the middle half of the empirical distribution.

    Unlike `iqm`, it weights the values at the quartiles, and is correct for fewer than four values too.

    Args:
        values: [..., n], n >= 1.
        axis: Axis of the values. Defaults to the last.
    """
    ordered = np.moveaxis(np.sort(np.asarray(values, np.float64), axis=axis), axis, -1)
    edges = np.arange(ordered.shape[-1] + 1) / ordered.shape[-1]
    inside = np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25)
    return (ordered * np.maximum(inside, 0.0)).sum(axis=-1) / 0.5


def usual_low(values: ArrayLike) -> float:
    """Return the lowest of the values (higher is better) without their worst tenth, which is at least one of five.

    A single diverged but finite candidate must not make all others look alike.

    Args:
        values: [n], n >= 1.
    """
    given = np.asarray(values, np.float64)
    return float(np.quantile(given, 0.1, method="higher") if given.size >= TRIMMED_FROM else given.min())


def usual_range(values: ArrayLike) -> float:
    """Return the range of values (higher is better) without their worst tenth; see `usual_low`.

    Args:
        values: [n], n >= 1.
    """
    return float(np.max(values)) - usual_low(values)


TRIMMED_FROM = 5
"""Number of values from which on the extreme tenth is left out. A tenth is rounded up to one value, which is a fifth of
five; of four, it would be a quarter, and no longer an exception."""


LAST_PART = 0.2
"""Last part of a budget, on which a run is judged."""


def last_part_return(env_steps: ArrayLike, returns: ArrayLike, budget: int, part: float = LAST_PART) -> float:
    """Return the mean return of the episodes that ended in the last part of the budget.

    It uses training returns over a last part rather than the best evaluation or the last episode, because the best of
    many is a lucky one and one episode is noise.

    Args:
        env_steps: Environment steps at the end of each episode, [n], in any order.
        returns: Return of each episode, [n].
        budget: Budget of the seed in environment steps, at least 1. Later episodes count too: vector environments
            overshoot by a few steps.
        part: Last part, above 0 and at most 1. Defaults to `0.2`: episodes that ended after 80% of the budget.

    Returns:
        The mean, NaN if no episode ended there.

    Raises:
        StudyError: If the lengths differ, or `budget` or `part` is out of range.
    """
    if budget < 1:
        raise StudyError(f"budget is {budget}: give at least 1 environment step.")
    if not 0 < part <= 1:
        raise StudyError(f"part is {part}: give a part above 0 and at most 1.")
    steps, values = as_curve(env_steps, returns)
    # budget - part * budget, not (1 - part) * budget: the latter is 80.00000000000001 for 100 and 0.2 in some cases.
    chosen = values[steps > budget - part * budget]
    return float(chosen.mean()) if chosen.size else math.nan


def windowed_mean(env_steps: ArrayLike, values: ArrayLike, at: float, width: float) -> float:
    """Return the mean of the values with `at - width < env_steps <= at`, NaN if there is none.

    Args:
        env_steps: Environment steps of each value, [n], in any order.
        values: Values, [n].
        at: End of the window, inclusive.
        width: Width of the window in environment steps, above 0.

    Raises:
        StudyError: If the lengths differ or `width` is not above 0.
    """
    if not width > 0:
        raise StudyError(f"width is {width}: give a window of more than 0 environment steps.")
    steps, numbers = as_curve(env_steps, values)
    chosen = numbers[(steps > at - width) & (steps <= at)]
    return float(chosen.mean()) if chosen.size else math.nan


def as_curve(env_steps: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return environment steps and the values at them as arrays.

    Raises:
        StudyError: If the lengths differ.
    """
    steps, numbers = np.asarray(env_steps, dtype=float), np.asarray(values, dtype=float)
    if steps.shape != numbers.shape or steps.ndim != 1:
        raise StudyError(f"env_steps has shape {steps.shape} and values {numbers.shape}: give two lists of one length.")
    return steps, numbers
