"""How a curve is read: by which rule, whether noise could look like it, and over which moving average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.errors import unknown_name
from finder.range_test.curve import smooth, smoothing_window
from finder.range_test.evidence import LEVEL, p_value
from finder.range_test.metric import MetricName, curve_metric
from finder.range_test.suggestion import RULES, Suggestion, empty_suggestion, no_suggestion, slide, steepest


def rule_of(metric: MetricName, rule: str | None = None) -> str:
    """Return a rule, by default that of the metric.

    For losses that is the rate at which they fall fastest (`steepest`), for returns a tenth of the rate at which they
    are best (`minimum`): returns accumulate the learning at all rates before, so that they rise fastest late, just
    before they collapse.

    Raises:
        ConfigurationError: The rule is unknown.
    """
    if rule is None:
        return "minimum" if curve_metric(metric) == "return" else "steepest"
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    return rule


def read_suggestion(
    rates: list[float],
    values: list[float],
    metric: MetricName,
    *,
    sma: int | None = None,
    sources: Sequence[int] | None = None,
    rule: str | None = None,
    diverged: bool = False,
) -> Suggestion:
    """Return the suggestion of a curve; it is empty if noise could improve as much as the curve.

    Args:
        rates: Ascending rates.
        values: One each.
        metric: The metric of the values.
        sma: Length of the moving average. Defaults to a tenth of the points.
        sources: Number of the rollout that each value was measured on; see `finder.range_test.evidence`.
        rule: Name of the rule, which is applied to the moving average (`finder.range_test.suggestion`): ``"steepest"``,
            ``"valley"``, ``"minimum"`` or ``"slide"``. Defaults to that of the metric (`rule_of`).
        diverged: Whether training diverged after the last point.

    Raises:
        ConfigurationError: The rule is unknown.
    """
    maximize = curve_metric(metric) == "return"
    name = rule_of(metric, rule)
    nothing = empty_suggestion(name, rates, values)
    if nothing is not None:
        return nothing
    p = p_value(values, maximize=maximize, sources=sources)
    if p > LEVEL:
        return no_suggestion(
            name,
            f"nothing can be read from this curve: noise alone improves as much in {p:.0%} of cases (at most "
            f"{LEVEL:.0%} would do)",
        )
    window = smoothing_window(len(values)) if sma is None else sma
    found = apply_rule(name, rates, values, maximize=maximize, sma=window, diverged=diverged)
    return _without_edges(found, rates, values, window, maximize=maximize) if name == "minimum" else found


def apply_rule(
    rule: str, rates: list[float], values: list[float], *, maximize: bool, sma: int, diverged: bool = False
) -> Suggestion:
    """Apply a rule to the moving average of a curve, without a test for noise.

    Args:
        rule: Name of the rule.
        rates: Ascending rates.
        values: One each.
        maximize: Whether larger values are better.
        sma: Length of the moving average, in points.
        diverged: Whether training diverged after the last point.
    """
    if rule == "steepest":
        return steepest(rates, values, maximize=maximize, sma=sma)
    if rule == "slide" and diverged:  # the rates of a sweep grow by the same factor
        beyond = rates[-1] * (rates[-1] / rates[-2] if len(rates) > 1 else 2.0)
        return slide([*rates, beyond], [*smooth(values, sma), np.nan], maximize=maximize)
    if rule in ("minimum", "valley"):
        found = _at_middle(RULES[rule](rates, _whole_windows(values, sma), maximize=maximize), rates, sma)
        return found if rule == "valley" or found.index is None else found._replace(rate=rates[found.index] / 10)
    return RULES[rule](rates, smooth(values, sma), maximize=maximize)


def _without_edges(
    found: Suggestion, rates: list[float], values: list[float], sma: int, *, maximize: bool
) -> Suggestion:
    """Return the suggestion of `minimum`, or none where the best window is the last one, or a tenth is not tested."""
    if found.index is None:
        return found
    middle, named = rates[found.index], "returns" if maximize else "losses"
    if found.index + sma // 2 == np.flatnonzero(np.isfinite(values))[-1]:
        return no_suggestion(found.rule, f"the {named} are best at the last rates, around {middle:.3g}")
    if middle / 10 < rates[0]:
        return no_suggestion(
            found.rule, f"the {named} are best around {middle:.3g}: test smaller rates, from below a tenth of it"
        )
    return found._replace(reason=f"a tenth of {middle:.3g}, where the {named} are best")


def _whole_windows(values: list[float], sma: int) -> np.ndarray:
    """Return the moving average without incomplete windows, whose means are noisier than the others."""
    smoothed = smooth(values, sma)
    smoothed[: sma - 1] = np.nan
    return smoothed


def _at_middle(found: Suggestion, rates: list[float], sma: int) -> Suggestion:
    """Return a suggestion that is the end of a window at the middle of that window."""
    if found.index is None:
        return found
    index = max(0, found.index - sma // 2)
    return found._replace(rate=rates[index], index=index)
