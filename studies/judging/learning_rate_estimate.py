"""Estimate of the best learning rate: its interval, whether the suggestion is safe, and for which length of run.

The best rate lies where the smoothed curve of values over rates may have its peak (`studies.statistics.rate_curve`).
The width of this interval, in decades, is the precision of the estimate.

A short run often favours rates that are too high. If the long run is longer than the runs of the study, the suggested
rate is lowered (`studies.statistics.drift`), and the interval is widened by the variation of this drift between tasks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from scipy import stats

from studies.judging.ranking import Ranked, may_exceed
from studies.judging.robust_choice import Point, PrunedEstimate, RateCurves, kind_key, rate_name
from studies.spaces.spaces import Json
from studies.spec.fields import Direction
from studies.statistics.drift import drift
from studies.statistics.values import sign_of, usual_range
from studies.words import rate_text

WIDEST = 2.0
"""Maximum width of a safe interval in decades, if the choice within it matters."""

LITTLE = 0.1
"""Share of the range of all candidates below which a difference does not matter."""

Edge = Literal["", "lowest", "highest"]

Cause = Literal["", "one rate", "one seed", "not told apart", "edge", "gap", "wide", "untried", "short runs"]
"""Short code of the reason why a suggestion is not safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRateEstimate:
    """Estimate of the best learning rate.

    Attributes:
        name: Parameter: `learning_rate`, or that of one optimizer such as `actor.learning_rate`.
        suggested: Rate to use: `tested`, corrected for the length of the long run. That of a baseline that remains
            the pick on a single further seed is not corrected.
        tested: Rate of the recommended trial.
        low: Lower end of the 95% interval of the best rate.
        high: Upper end of that interval.
        lowest: Lowest rate that was tried.
        highest: Highest rate that was tried.
        told_apart: Whether any rate was distinguishable from the best one.
        gap: The rates on both sides of the widest gap beside `tested`, if it is wider than `WIDEST`; else None.
        edge: Whether `tested` is the lowest or the highest rate that was tried, so that the best may lie beyond.
        cost: How much better another rate of the interval may be, as a share of the range of all candidates; NaN if the
            spread is unknown.
        env_steps: Environment steps of each run of the study; None if the budget is in episodes.
        horizon: Environment steps of the long run; None: the budget of the study.
        why_unsafe: Reason why the suggestion is not safe, "" if it is.
        cause: The same as a short code.
        drift_error: Standard deviation of the drift per decade of steps; 0 if the long run is as long as those of the
            study.
    """

    name: str
    suggested: float
    tested: float
    low: float
    high: float
    lowest: float
    highest: float
    told_apart: bool
    edge: Edge
    cost: float
    env_steps: int | None
    horizon: int | None
    why_unsafe: str
    cause: Cause
    drift_error: float = 0.0
    gap: tuple[float, float] | None = None

    @property
    def decades(self) -> float:
        """Width of the interval in decades."""
        return math.log10(self.high / self.low)

    @property
    def is_of_horizon(self) -> bool:
        """Return whether the interval is that for a long run of another length than the runs of the study."""
        return self.drift_error > 0

    @property
    def corrected(self) -> bool:
        """Return whether the suggested rate differs from the tested one, because the long run has another length."""
        return self.suggested != self.tested

    def to_json(self) -> dict[str, Json]:
        """Return the estimate as JSON values; an unknown cost is None."""
        data = {**asdict(self), "decades": self.decades, "safe": not self.why_unsafe}
        return {**data, "cost": None if math.isnan(self.cost) else self.cost}


def estimate_learning_rate(
    ranked: Sequence[Ranked],
    estimated: Sequence[PrunedEstimate],
    pick: Ranked,
    direction: Direction = "maximize",
    *,
    env_steps: int | None = None,
    horizon: int | None = None,
    drift_known: bool = True,
    finalists_alone: bool = False,
    keeps_rate: bool = False,
) -> LearningRateEstimate | None:
    """Return the estimate of the best learning rate, with all other parameters as in the pick.

    Args:
        ranked: The candidates that are judged, as `studies.judging.ranking.rank` returns them (`Verdict.ranked`).
        estimated: Estimates of pruned and failed candidates.
        pick: Candidate to use, one of `ranked`.
        direction: Direction in which values are better.
        env_steps: Environment steps of each run.
        horizon: Environment steps of the long run, at least 1; only with `env_steps`.
        drift_known: Whether the drift was measured on the optimizer of the pick. Defaults to `True`.
        finalists_alone: Whether `ranked` are finalists alone, which are too few for a curve: then the interval contains
            the rates of all that are tied with the pick, and estimates of the others may distinguish rates. Defaults to
            `False`.
        keeps_rate: Whether the rate of the pick is not corrected for the horizon. Defaults to `False`.

    Returns:
        None if no learning rate was searched, or only one was tried.
    """
    points: list[Point] = [*ranked, *estimated]
    name = rate_name(points)
    if name is None or name not in pick.params:
        return None
    kind = kind_key(pick, name)
    own = [each for each in ranked if kind_key(each, name) == kind]
    gone = [each for each in estimated if kind_key(each, name) == kind]
    group: list[Point] = [*own, *gone]
    rates = sorted({_rate(each, name) for each in group})
    if len(rates) < 2:
        return None
    tested = _rate(pick, name)
    level = [each for each in own if (each.tied or each.number == pick.number) and each.has_value]
    if math.isnan(pick.low):
        low, high = rates[0], rates[-1]
    else:
        peak = RateCurves(ranked, estimated, name, direction).of(pick).peak
        low, high = min(10**peak.low, tested), max(10**peak.high, tested)
    if finalists_alone:
        low, high = (end([limit, *(_rate(each, name) for each in level)]) for end, limit in ((min, low), (max, high)))
    edge: Edge = "lowest" if tested == rates[0] else "highest" if tested == rates[-1] else ""
    cost = cost_of_choice(pick, level, points, direction)
    # Failures may have other causes than the rate.
    valued = {_rate(each, name) for each in group if each.has_value}
    told_apart = not math.isnan(cost) and (
        any(not each.tied and each.has_value for each in own)
        or any(each.clearly_worse for each in gone)
        or (finalists_alone and any(_is_worse(each, pick, len(gone), direction) for each in gone))
    )
    gap, (cause, reason) = _gap(tested, rates), _ONLY_ONE
    if len(valued) > 1:
        cause, reason = _why_unsafe(tested, edge, (low, high), gap=gap, cost=cost, told_apart=told_apart)
    suggested, drift_error = tested, 0.0
    if horizon is not None and env_steps is not None and horizon != env_steps:
        shift, error = drift(env_steps / horizon, known=drift_known)
        drift_error = error / abs(math.log10(horizon / env_steps))
        below = math.hypot(math.log10(tested / low), 1.96 * error)
        above = math.hypot(math.log10(high / tested), 1.96 * error)
        moved = float(f"{tested * 10**shift:.3g}")
        suggested = tested if keeps_rate else moved
        low, high = min(moved * 10**-below, suggested), max(moved * 10**above, suggested)
        longer = "Train further"
        if horizon < env_steps:
            longer = "Train as long as that"
        if not reason and not rates[0] <= suggested <= rates[-1]:
            beyond = "below all" if suggested < rates[0] else "above all"
            cause, reason = (
                "untried",
                f"for a run of {horizon:,} environment steps it would be {rate_text(suggested)}, which lies {beyond} "
                f"rates that were tried. {longer}, or try such rates too.",
            )
        if not reason and below + above > WIDEST:
            unmeasured = "" if drift_known else " (how it moves was not measured on this optimizer)"
            cause, reason = (
                "short runs",
                f"runs of {env_steps:,} environment steps are too {'long' if horizon < env_steps else 'short'} to "
                f"predict one of {horizon:,}: its best rate "
                f"lies between {rate_text(low)} and {rate_text(high)}{unmeasured}. {longer}.",
            )
    return LearningRateEstimate(
        name=name, suggested=suggested, tested=tested, low=low, high=high, lowest=rates[0], highest=rates[-1],
        told_apart=told_apart, edge=edge, cost=cost, env_steps=env_steps, horizon=horizon, why_unsafe=reason,
        cause=cause, drift_error=drift_error, gap=gap,
    )  # fmt: skip


_Why = tuple[Cause, str]

_ONLY_ONE: _Why = ("one rate", "only one rate came to its end, so there is nothing to compare it with.")


def _gap(tested: float, rates: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of the widest gap between a rate and its neighbours, in which the best rate may lie unseen."""
    at = rates.index(tested)
    low, high = max(itertools.pairwise(rates[max(0, at - 1) : at + 2]), key=lambda pair: pair[1] / pair[0])
    return (low, high) if math.log10(high / low) > WIDEST else None


def _why_unsafe(
    tested: float,
    edge: Edge,
    interval: tuple[float, float],
    *,
    gap: tuple[float, float] | None,
    cost: float,
    told_apart: bool,
) -> _Why:
    if math.isnan(cost):
        return "one seed", "with one seed each, rates cannot be distinguished."
    if not told_apart and cost > LITTLE:
        return (
            "not told apart",
            "these runs do not distinguish any rate from the best, at the end or when pruned.",
        )
    if gap is not None:
        between = " and ".join(map(rate_text, gap))
        return "gap", f"no rate between {between} was tried, and the best one may lie there."
    if edge:
        other = "lower" if edge == "lowest" else "higher"
        return "edge", f"{rate_text(tested)} is the {edge} rate that was tried: {other} ones may be better."
    low, high = interval
    if cost > LITTLE and math.log10(high / low) > WIDEST:
        return "wide", (
            f"the best rate lies anywhere between {rate_text(low)} and {rate_text(high)}, and it matters which: "
            f"{cost_text(cost, 'one of them')}."
        )
    return "", ""


def cost_of_choice(
    pick: Ranked, level: Sequence[Ranked], points: Sequence[Point], direction: Direction = "maximize"
) -> float:
    """Return how much better than the pick a tied candidate may be, as a share of the range of all candidates.

    Args:
        pick: Candidate to use.
        level: Candidates that cannot be distinguished from it.
        points: All candidates.
        direction: Direction in which values are better.

    Returns:
        The share, at least 0, above 1 if nothing distinguishes the candidates; NaN if the spread is unknown.
    """
    if math.isnan(pick.low):
        return math.nan
    sign = sign_of(direction)
    span = usual_range([sign * each.value for each in points if each.has_value])
    others = [each for each in level if each.number != pick.number]
    costs = [may_exceed(each, pick) if direction == "maximize" else may_exceed(pick, each) for each in others]
    return max([0.0, *costs]) / span if span > 0 else 0.0


def cost_text(cost: float, which: str) -> str:
    """Return the cost of a wrong choice in words: `one of them may be better by up to 25% of the range of all trials`.

    Args:
        cost: Share of that range; see `cost_of_choice`.
        which: Subject of the sentence.
    """
    if cost < 1:
        return f"{which} may be better by up to {cost:.0%} of the range of all trials"
    return "nothing distinguishes them"


def _rate(point: Point, name: str) -> float:
    rate = point.params[name]
    assert isinstance(rate, int | float)  # `rate_name` has checked it
    return float(rate)


def _is_worse(estimate: PrunedEstimate, pick: Ranked, n: int, direction: Direction) -> bool:
    """Return whether an estimate, of so many, lies beyond the interval of the pick, with 95% confidence over all."""
    if not (estimate.error and estimate.has_value):
        return False
    reach = float(stats.t.ppf(1 - 0.05 / (2 * n), estimate.df)) * estimate.error
    if direction == "maximize":
        return estimate.value + reach < pick.compared_low
    return estimate.value - reach > pick.compared_high
