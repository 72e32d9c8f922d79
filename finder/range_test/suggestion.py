"""Rules that suggest a learning rate from a curve. Pure functions over (rates, values).

The curve comes from a learning-rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", 2015,
arXiv 1506.01186: train while the rate grows, and find where the loss starts and stops falling), or from a grid of
separate runs. Values are losses (minimised) or returns (`maximize=True`); training has diverged at NaN and infinite
values. The learning-rate finder of fastai has suggestions of the same four names; differences are documented at each
rule.

Smooth noisy curves first, with `smooth`. A rule that cannot be applied returns a suggestion without a rate and the
reason.
"""

import bisect
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from finder.range_test.curve import Floats, Numbers, check_curve, smooth

MIN_POINTS = 4
"""A rule needs at least this many finite values."""

FLAT = 1e-9
"""A curve whose finite values differ by less than this share of their size is flat."""


class Suggestion(NamedTuple):
    """The suggestion of a rule for a curve.

    Attributes:
        rate: The suggested learning rate, > 0, or None.
        index: Index in `rates` of the point of the suggestion, or None. `rate` is the rate of this point, or a fixed
            part of it for some rules.
        rule: Name of the rule.
        reason: Why the rate is suggested, or why none is.
    """

    rate: float | None
    index: int | None  # type: ignore[assignment]  # hides tuple.index
    rule: str
    reason: str


def steepest(rates: Numbers, values: Numbers, *, maximize: bool, sma: int = 1) -> Suggestion:
    """Suggest the rate at which the values improve fastest on a log10 axis of the rate.

    The mean of `sma` values from a rate on is compared with the mean of the `sma` values before it; incomplete windows
    are not used, because their means are noisier. Rates after the best mean are not considered, where steep segments
    are recoveries from divergence. The first and the last place are never suggested, because the values may improve
    faster beyond the tested rates. The rule of fastai does not divide by the distance of rates, which is equivalent for
    evenly spaced logarithms.

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; may hold NaN and infinities, which are left out.
        maximize: Whether larger values are better.
        sma: Number of values of each mean, >= 1. Defaults to 1.

    Returns:
        The suggestion, with one of the given rates.

    Raises:
        ValueError: Shapes differ, or rates do not ascend or are not > 0, or `sma` < 1.
    """
    curve, nothing = _prepare("steepest", rates, values, maximize)
    if nothing is not None:
        return nothing
    points = np.flatnonzero(np.isfinite(curve.goodness))  # [F]
    means = smooth(curve.goodness[points], sma)  # [F] of the value and those before it
    if 2 * sma > len(points):
        return no_suggestion("steepest", f"only {len(points)} finite values; means of {sma} need at least {2 * sma}")
    best = sma - 1 + int(np.argmax(means[sma - 1 :]))
    firsts = np.arange(sma, best - sma + 2)  # where the second of two stretches may begin: [S]
    logs = smooth(np.log10(curve.rates[points]), sma)
    with np.errstate(over="ignore"):  # values of opposite huge size: an infinite change is the right word for it
        improvement = (means[firsts + sma - 1] - means[firsts - 1]) / (logs[firsts + sma - 1] - logs[firsts - 1])
    if not (improvement > 0).any():
        return no_suggestion("steepest", _never_improves(curve))
    first = int(firsts[np.argmax(improvement)])
    rate = curve.rates[points[first]]
    if first == sma:
        return no_suggestion(
            "steepest", f"the values improve fastest at the first rates, up to {rate:.3g}: test smaller ones"
        )
    if first + sma == len(points):
        return no_suggestion("steepest", f"the values improve fastest at the last rates, from {rate:.3g} on")
    fastest = "returns rise" if maximize else "losses fall"
    return _found(
        "steepest", curve, int(points[first]), f"{fastest} fastest here, by {improvement.max():.3g} per decade"
    )


def valley(rates: Numbers, values: Numbers, *, maximize: bool) -> Suggestion:
    """Suggest a rate two thirds along the longest stretch over which the values keep improving.

    The stretch is the longest subsequence of points each better than the one before it, so that single bad points do
    not break it; of equally long ones, the one with the best end. The rate is the last finite point at or before two
    thirds of the way from its first to its last rate on a log10 axis. (fastai stops halfway, counted in points.)

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; may hold NaN and infinities.
        maximize: Whether larger values are better.

    Returns:
        The suggestion, with one of the given rates.

    Raises:
        ValueError: Shapes differ, or rates do not ascend or are not > 0.
    """
    curve, nothing = _prepare("valley", rates, values, maximize)
    if nothing is not None:
        return nothing
    points = np.flatnonzero(np.isfinite(curve.goodness))
    stretch = points[_longest_rise(curve.goodness[points])]
    if len(stretch) < 3:
        return no_suggestion("valley", "no three points improve on each other as the rate grows")
    low, high = curve.rates[stretch[0]], curve.rates[stretch[-1]]
    two_thirds = math.log10(low) + (math.log10(high) - math.log10(low)) * 2.0 / 3.0
    index = int(points[np.log10(curve.rates[points]) <= two_thirds + 1e-9][-1])  # the margin is for rounding
    return _found("valley", curve, index, f"the values improve longest from {low:.3g} to {high:.3g}; this is 2/3 along")


def minimum(rates: Numbers, values: Numbers, *, maximize: bool) -> Suggestion:
    """Suggest a tenth of the rate with the best value.

    In a range test the best value comes late, when the rate is nearly too large and the training at all rates before
    has accumulated; a rate a decade below is safer. Do not use this rule for a grid of separate runs, where the best
    rate itself is the answer.

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; may hold NaN and infinities.
        maximize: Whether larger values are better; then the maximum is used.

    Returns:
        The suggestion. Its rate may be below the smallest given rate, which the reason then mentions.

    Raises:
        ValueError: Shapes differ, or rates do not ascend or are not > 0.
    """
    curve, nothing = _prepare("minimum", rates, values, maximize)
    if nothing is not None:
        return nothing
    index = int(np.nanargmax(curve.goodness))
    if index == np.flatnonzero(np.isfinite(curve.goodness))[0]:
        return no_suggestion("minimum", _never_improves(curve))
    reason = f"a tenth of {curve.rates[index]:.3g}, where the value is best"
    if curve.rates[index] / 10.0 < curve.rates[0]:
        reason += f"; below the tested rates, which begin at {curve.rates[0]:.3g}"
    if index == len(curve.rates) - 1:
        reason += "; the best is at the largest rate, so larger ones may be worth testing"
    return _found("minimum", curve, index, reason, scale=0.1)


def slide(
    rates: Numbers, values: Numbers, *, maximize: bool, threshold: float = 0.5, scale: float = 1.0 / 3.0
) -> Suggestion:
    """Suggest a part of the last rate before the values diverge for good.

    A point has diverged when it is not finite, or worse than the best value before it by more than `threshold` times
    all the improvement that the curve makes. The edge is the last point that has not, with everything after it
    diverged. The default third follows Bengio ("Practical recommendations for gradient-based training of deep
    architectures", 2012, arXiv 1206.5533), who divides a rate that diverges by three. fastai's rule of this name slides
    an interval along the gradient of the losses instead; this one also works where divergence means NaN.

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; may hold NaN and infinities.
        maximize: Whether larger values are better.
        threshold: How much of the improvement may be lost again, > 0. Defaults to 0.5.
        scale: Part of the edge's rate that is suggested, in (0, 1]. Defaults to 1/3.

    Returns:
        The suggestion; its index is the edge's.

    Raises:
        ValueError: Shapes differ, rates do not ascend or are not > 0, or `threshold` or `scale` is out of range.
    """
    if not 0.0 < threshold < math.inf:
        raise ValueError(f"threshold must be a finite number > 0, got {threshold!r}")
    if not 0.0 < scale <= 1.0:
        raise ValueError(f"scale must be in (0, 1], got {scale!r}")
    curve, nothing = _prepare("slide", rates, values, maximize)
    if nothing is not None:
        return nothing
    best = int(np.nanargmax(curve.goodness))
    gained = curve.goodness[best] - np.nanmin(curve.goodness[: best + 1])
    if gained <= 0.0:
        return no_suggestion("slide", _never_improves(curve))
    best_so_far = np.fmax.accumulate(curve.goodness)  # NaN only before the first finite point
    with np.errstate(over="ignore"):  # a loss of infinite size is one more that has diverged
        lost = best_so_far - curve.goodness
    stable = np.flatnonzero(lost <= threshold * gained)  # NaN is not stable
    edge = int(stable[-1])
    if edge == len(curve.rates) - 1:
        return no_suggestion("slide", f"the values do not diverge up to the largest rate, {curve.rates[edge]:.3g}")
    return _found(
        "slide", curve, edge, f"{scale:.3g} of {curve.rates[edge]:.3g}, the last rate before divergence", scale
    )


RULES: dict[str, Callable[..., Suggestion]] = {
    "minimum": minimum,
    "slide": slide,
    "steepest": steepest,
    "valley": valley,
}
"""Every rule by name."""


def empty_suggestion(rule: str, rates: Numbers, values: Numbers) -> Suggestion | None:
    """Return the empty suggestion for a curve with too few finite values or without changes, else None."""
    return _prepare(rule, rates, values, maximize=True)[1]


class _Curve(NamedTuple):
    rates: Floats  # [M]
    goodness: Floats  # the values, negated if they are to be minimised, NaN where not finite: [M]


def _prepare(rule: str, rates: Numbers, values: Numbers, maximize: bool) -> tuple[_Curve, Suggestion | None]:
    """Check a curve, negate values to minimise, and return an empty suggestion if no rule can be applied."""
    checked, given = check_curve(rates, values)
    finite = np.isfinite(given)
    curve = _Curve(checked, np.where(finite, given if maximize else -given, np.nan))
    n_finite = int(finite.sum())
    if n_finite == 0:
        return curve, no_suggestion(rule, "no value is finite" if len(given) else "there are no points")
    if n_finite < MIN_POINTS:
        return curve, no_suggestion(rule, f"only {n_finite} finite values; at least {MIN_POINTS} are needed")
    low, high = float(given[finite].min()), float(given[finite].max())
    if high - low <= FLAT * max(abs(low), abs(high)):
        return curve, no_suggestion(rule, f"the curve is flat at {low:.3g}")
    return curve, None


def _longest_rise(goodness: Floats) -> list[int]:
    """Find the longest strictly increasing subsequence by patience sorting, in O(M log M).

    Args:
        goodness: Finite values, [M] with M >= 1.

    Returns:
        Indices of its points, ascending; of equally long ones, those of the one with the best end.
    """
    ends: list[int] = []  # ends[k]: index of the smallest value that ends a rise of k + 1 points so far
    end_values: list[float] = []
    previous, lengths = [-1] * len(goodness), [0] * len(goodness)
    for index, value in enumerate(goodness.tolist()):
        before = bisect.bisect_left(end_values, value)  # points of the longest rise that this one can extend
        previous[index] = ends[before - 1] if before else -1
        lengths[index] = before + 1
        ends[before : before + 1], end_values[before : before + 1] = [index], [value]
    rise = [lengths.index(max(lengths))]  # a later end that is better would have made its rise longer
    while previous[rise[-1]] >= 0:
        rise.append(previous[rise[-1]])
    return rise[::-1]


def _never_improves(curve: _Curve) -> str:
    first = curve.rates[np.isfinite(curve.goodness)][0]
    return f"the values never get better than at the smallest rate, {first:.3g}"


def no_suggestion(rule: str, reason: str) -> Suggestion:
    """Return a suggestion without a rate, for this reason."""
    return Suggestion(rate=None, index=None, rule=rule, reason=reason)


def _found(rule: str, curve: _Curve, index: int, reason: str, scale: float = 1.0) -> Suggestion:
    return Suggestion(rate=float(curve.rates[index] * scale), index=index, rule=rule, reason=reason)
