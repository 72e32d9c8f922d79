"""Pools range tests of one agent on several seeds: their mean curve, and an interval of the suggestion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from finder.range_test.curve import smooth, smoothing_window
from finder.range_test.range_test import RangeTestResult
from finder.range_test.suggestion import minimum, no_suggestion, steepest
from finder.range_test.sweep import Sweep
from studies.judging.learning_rate_estimate import WIDEST


def pool_results(runs: Sequence[RangeTestResult], seeds: Sequence[int]) -> RangeTestResult:
    """Pool several range tests over the same rates.

    The pooled curve is the mean over the tests that reached a rate, up to the rate at which the first of them diverged.
    The suggestion is read from this curve. The curve of each single test also has a rate at which it improves fastest
    (or is best); the interval of the suggestion is the confidence interval of the mean of these rates, from Student's
    distribution. If the interval spans more than `WIDEST` decades, there is no safe suggestion.

    Args:
        runs: The tests, at least one. The last one may have ended with an error.
        seeds: The seed of each.
    """
    if len(runs) == 1:
        return replace(runs[0], seeds=tuple(seeds))
    error = next((run.error for run in runs if run.error is not None), None)
    diverged = [run for run in runs if run.diverged and run.curve()[0]]
    end = min((run.curve()[0][-1] for run in diverged), default=math.inf)
    first = min(diverged, key=lambda run: run.curve()[0][-1]) if diverged else runs[-1]
    normalized = [value for run in runs for value, _ in _normalized_until(run, end)]
    order = np.argsort([rate for run in runs for _, rate in _normalized_until(run, end)], kind="stable")
    together = replace(
        runs[-1],
        rewards=_merged([run.rewards for run in runs], end),
        losses=_merged([run.losses for run in runs], end),
        normalized=[normalized[i] for i in order],
        reason=first.reason,
        diverged=bool(diverged),
        seeds=tuple(seeds),
        runs=tuple(runs),
    )
    if error is not None:
        return together
    suggestion = together.read() if together.curve()[0] else runs[-1].suggestion
    if suggestion.rate is None:
        return replace(together, suggestion=suggestion)
    log_rates = [log_rate for run in runs if not math.isnan(log_rate := _log_rate_of(run, end))]
    if len(log_rates) < 2:
        reason = f"only {len(log_rates)} of {len(runs)} runs has a curve that shows where it learns fastest"
        return replace(together, suggestion=no_suggestion(suggestion.rule, reason))
    reach = _half_width(log_rates, together.curve()[0])
    low, high = suggestion.rate * 10**-reach, suggestion.rate * 10**reach
    if 2 * reach > WIDEST:
        reason = (
            f"the {len(runs)} runs disagree: their mean suggests {suggestion.rate:.3g}, with a 95% interval of "
            f"{2 * reach:.1f} decades"
        )
        suggestion = no_suggestion(suggestion.rule, reason)
    return replace(together, suggestion=suggestion, low=low, high=high)


def _merged(sweeps: Sequence[Sweep], end: float) -> Sweep:
    """Merge the points up to a rate, in the order of their rates."""
    points = [
        point
        for sweep in sweeps
        for point in zip(sweep.rates, sweep.values, sweep.env_steps, strict=True)
        if point[0] <= end
    ]
    merged = Sweep()
    for point in sorted(points, key=lambda point: point[0]):
        merged.add(*point)
    return merged


def _normalized_until(run: RangeTestResult, end: float) -> list[tuple[float, float]]:
    pairs = zip(run.normalized, run.rewards.rates, strict=True)
    return [(value, rate) for value, rate in pairs if rate <= end]


def _log_rate_of(run: RangeTestResult, end: float) -> float:
    """Return the decimal logarithm of the best rate of one curve, without a test for noise; NaN if there is none."""
    rates, values = run.curve()
    kept = [i for i, rate in enumerate(rates) if rate <= end]
    rates, values = [rates[i] for i in kept], [values[i] for i in kept]
    window = smoothing_window(len(values))
    if run.metric == "loss":
        found = steepest(rates, values, maximize=False, sma=window) if rates else None
    else:
        found = minimum(rates, smooth(values, window), maximize=True) if rates else None
    return math.nan if found is None or found.rate is None else math.log10(found.rate)


def _half_width(log_rates: Sequence[float], rates: Sequence[float]) -> float:
    """Return half the width of the 95% interval of the mean, in decades; at least half the distance of two rates."""
    quantile = float(stats.t.ppf(0.975, len(log_rates) - 1))
    step = math.log10(rates[-1] / rates[0]) / max(1, len(rates) - 1)
    return max(quantile * float(np.std(log_rates, ddof=1)) / math.sqrt(len(log_rates)), step / 2)
