"""Pools range tests of one agent on several seeds: their mean curve, and an interval of the suggestion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from agents.errors import check_whole
from finder.range_test.curve import smoothing_window, trim
from finder.range_test.range_test import RangeTestResult
from finder.range_test.reading import apply_rule, rule_of
from finder.range_test.suggestion import Suggestion, no_suggestion
from finder.range_test.sweep import merged
from studies.judging.learning_rate_estimate import WIDEST


def pool_results(runs: Sequence[RangeTestResult], seeds: Sequence[int]) -> RangeTestResult:
    """Pool several range tests over the same rates.

    The pooled curve is the mean over the tests that reached a rate, up to the rate at which the first of them diverged.
    The suggestion is read from the mean of their comparable curves (`finder.range_test.sweep.comparable`). The same
    rule also gives a rate for each single test; the interval of the suggestion is the confidence interval of the mean
    logarithm of these rates, from Student's distribution, and includes the suggestion. The tests disagree, and there is
    no safe suggestion, if the interval spans more than `WIDEST` decades, or if the rate of the pooled curve is beyond
    it by more than half the length of the moving average, within which single curves do not tell rates apart.

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
        rewards=merged([run.rewards.between(0.0, end) for run in runs]),
        losses=merged([run.losses.between(0.0, end) for run in runs]),
        normalized=[normalized[i] for i in order],
        reason=first.reason,
        diverged=bool(diverged),
        seeds=tuple(seeds),
        runs=tuple(runs),
    )
    if error is not None:
        return together
    return replace(together, **agreed(together)._asdict()) if together.curve()[0] else together


class Agreed(NamedTuple):
    """The suggestion of several runs, with the ends of its 95% interval (NaN without one)."""

    suggestion: Suggestion
    low: float = math.nan
    high: float = math.nan


def agreed(
    result: RangeTestResult,
    n_skip_beginning: int = 0,
    n_skip_end: int = 0,
    sma: int | None = None,
    rule: str | None = None,
) -> Agreed:
    """Read the suggestion of a result, and that of each of its runs: where these disagree, there is none.

    Args:
        result: A pooled result; one of a single run has no interval.
        n_skip_beginning: Points to leave out at the beginning of the pooled curve, and rates before them in the runs.
        n_skip_end: Points to leave out at the end.
        sma: See `finder.range_test.reading.read_suggestion`.
        rule: See `finder.range_test.reading.read_suggestion`.
    """
    check_whole(1, sma=sma)
    suggestion = result.read(n_skip_beginning, n_skip_end, sma, rule)
    if suggestion.rate is None or not result.runs:
        return Agreed(suggestion)
    rates, _ = trim(*result.curve(), n_skip_beginning, n_skip_end)
    name, n_runs = rule_of(result.metric, rule), len(result.runs)
    found = [_log_rate_of(run, rates[0], rates[-1], name, sma) for run in result.runs]
    log_rates = [each for each in found if not math.isnan(each)]
    if len(log_rates) < 2:
        reason = f"only {len(log_rates)} of {n_runs} runs has a curve that shows where it learns fastest"
        return Agreed(no_suggestion(suggestion.rule, reason))
    step = math.log10(rates[-1] / rates[0]) / max(1, len(rates) - 1)
    centre, reach = float(np.mean(log_rates)), _half_width(log_rates, step)
    low, high = 10 ** (centre - reach), 10 ** (centre + reach)
    window = smoothing_window(len(rates)) if sma is None else sma
    if 2 * reach > WIDEST:
        reason = (
            f"the {n_runs} runs disagree: their mean suggests {suggestion.rate:.3g}, with a 95% interval of "
            f"{2 * reach:.1f} decades"
        )
    elif abs(math.log10(suggestion.rate) - centre) > reach + window * step / 2:
        reason = (
            f"the {n_runs} runs disagree: their mean suggests {suggestion.rate:.3g}, and the suggestions of the single "
            f"runs have the 95% interval {low:.3g} to {high:.3g}"
        )
    else:
        return Agreed(suggestion, min(low, suggestion.rate), max(high, suggestion.rate))
    return Agreed(no_suggestion(suggestion.rule, reason), low, high)


def _normalized_until(run: RangeTestResult, end: float) -> list[tuple[float, float]]:
    pairs = zip(run.normalized, run.rewards.rates, strict=True)
    return [(value, rate) for value, rate in pairs if rate <= end]


def _log_rate_of(run: RangeTestResult, first: float, last: float, rule: str, sma: int | None) -> float:
    """Return the decimal logarithm of the rate of one curve by a rule, without a test for noise; NaN if there is none.

    Args:
        run: The run.
        first: Rate from which on points are read.
        last: Rate up to which they are.
        rule: Name of the rule.
        sma: Length of the moving average. Defaults to a tenth of the points.
    """
    points = [point for point in zip(*run.curve(), strict=True) if first <= point[0] <= last]
    if not points:
        return math.nan
    rates, values = (list(each) for each in zip(*points, strict=True))
    window = smoothing_window(len(values)) if sma is None else sma
    diverged = run.diverged and rates[-1] == run.curve()[0][-1]
    found = apply_rule(rule, rates, values, maximize=run.metric == "return", sma=window, diverged=diverged)
    return math.nan if found.rate is None else math.log10(found.rate)


def _half_width(log_rates: Sequence[float], step: float) -> float:
    """Return half the width of the 95% interval of the mean, in decades; at least half a step between two rates."""
    quantile = float(stats.t.ppf(0.975, len(log_rates) - 1))
    return max(quantile * float(np.std(log_rates, ddof=1)) / math.sqrt(len(log_rates)), step / 2)
