"""Which learning rate to use: between which rates the best one lies, whether that is safe, and for how long a run.

The best rate lies where the curve of values over rates may be highest (`studies.statistics.rate_curve`). How wide that
is, in decades, is how much is known.

A short run favours rates that are too high. So where the run that follows is longer than those of the study, the rate
is lowered (`studies.statistics.drift`), and the interval grows by how much that differs from task to task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from studies.analysis.ranking import Ranked, may_exceed
from studies.analysis.robust_choice import Point, PrunedEstimate, RateCurves, kind_key, rate_name
from studies.spec.spaces import Json
from studies.spec.spec import Direction
from studies.statistics.drift import drift
from studies.statistics.values import usual_range
from studies.words import rate_text

WIDEST = 2.0
"""Decades that the interval may span where the choice within it matters."""

LITTLE = 0.1
"""Share of the range of all candidates below which the choice does not matter."""

Edge = Literal["", "lowest", "highest"]

Cause = Literal["", "one rate", "one seed", "not told apart", "edge", "wide", "untried", "short runs"]
"""Why there is no safe suggestion, as a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRateEstimate:
    """What a search says of the learning rate.

    Attributes:
        name: The parameter: `learning_rate`, or that of one optimizer such as `actor.learning_rate`.
        suggested: The rate to use: `tested`, or for a longer run what the best rate becomes.
        tested: The rate of the pick.
        low: Lower end of the interval in which the best rate lies with 95% probability.
        high: Its upper end.
        lowest: The lowest rate that was tried.
        highest: The highest one.
        told_apart: Whether any rate was told from the best one.
        edge: Whether the pick is the lowest or the highest rate that was tried, so that the best may lie beyond.
        cost: How much better another rate of the interval may be, as a share of the range of all candidates; NaN where
            nothing is known of the spread.
        env_steps: Environment steps of each run of the study; None where the budget is in episodes.
        horizon: Environment steps of the run that the rate is for; None: as long as those of the study.
        why_unsafe: Why there is no safe suggestion, "" where there is one.
        cause: The same as a word.
        drift_error: Standard deviation of how far the best rate moves for each decade of steps; 0 where the run that
            follows is as long as those of the study.
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

    @property
    def decades(self) -> float:
        """Width of the interval."""
        return math.log10(self.high / self.low)

    @property
    def corrected(self) -> bool:
        """Whether the suggested rate is not the tested one, because the run that follows has another length."""
        return self.suggested != self.tested

    def to_json(self) -> dict[str, Json]:
        """Returns the finding as JSON values; an unknown cost is None."""
        data = {**asdict(self), "decades": self.decades, "safe": not self.why_unsafe}
        return {**data, "cost": None if math.isnan(self.cost) else self.cost}


def estimate_learning_rate(
    ranked: Sequence[Ranked],
    left: Sequence[PrunedEstimate],
    pick: Ranked,
    direction: Direction = "maximize",
    *,
    env_steps: int | None = None,
    horizon: int | None = None,
    drift_known: bool = True,
) -> LearningRateEstimate | None:
    """Returns what is known of the best learning rate, with everything else as the pick has it.

    Args:
        ranked: All complete candidates, as `studies.analysis.ranking.rank` returns them, on all seeds that each has.
        left: What was tried but did not come to its end.
        pick: The candidate to use, one of `ranked`.
        direction: Whether a high or a low value is good.
        env_steps: Environment steps of each run.
        horizon: Environment steps of the run that the rate is for, at least 1; only with `env_steps`.
        drift_known: Whether it was measured on the pick's optimizer how its best rate moves with the length of runs.
            Defaults to `True`.

    Returns:
        None where no learning rate was searched, or only one was tried.
    """
    points: list[Point] = [*ranked, *left]
    name = rate_name(points)
    if name is None or name not in pick.params:
        return None
    kind = kind_key(pick, name)
    own = [each for each in ranked if kind_key(each, name) == kind]
    gone = [each for each in left if kind_key(each, name) == kind]
    group: list[Point] = [*own, *gone]
    rates = sorted({_rate(each, name) for each in group})
    if len(rates) < 2:
        return None
    tested = _rate(pick, name)
    level = [each for each in own if (each.tied or each.number == pick.number) and _known(each.value)]
    if math.isnan(pick.low):
        low, high = rates[0], rates[-1]
    else:
        peak = RateCurves(ranked, left, name, direction).of(pick).peak
        low, high = min(10**peak.low, tested), max(10**peak.high, tested)
    edge: Edge = "lowest" if tested == rates[0] else "highest" if tested == rates[-1] else ""
    cost = cost_of_choice(pick, level, points, direction)
    # What failed may have failed for another reason than its rate.
    valued = {_rate(each, name) for each in group if _known(each.value)}
    told_apart = not math.isnan(cost) and (
        any(not each.tied and _known(each.value) for each in own) or any(each.told for each in gone)
    )
    cause, why = _why_unsafe(tested, edge, (low, high), cost, told_apart) if len(valued) > 1 else _ONLY_ONE
    suggested, drift_error = tested, 0.0
    if horizon is not None and env_steps is not None and horizon != env_steps:
        shift, error = drift(env_steps / horizon, known=drift_known)
        drift_error = error / abs(math.log10(horizon / env_steps))
        below = math.hypot(math.log10(tested / low), 1.96 * error)
        above = math.hypot(math.log10(high / tested), 1.96 * error)
        suggested = float(f"{tested * 10**shift:.3g}")
        low, high = suggested * 10**-below, suggested * 10**above
        longer = "Train further"
        if horizon < env_steps:
            longer = "Train as long as that"
        if not why and not rates[0] <= suggested <= rates[-1]:
            beyond = "below all" if suggested < rates[0] else "above all"
            cause, why = (
                "untried",
                f"for a run of {horizon:,} environment steps it would be {rate_text(suggested)}, which lies {beyond} "
                f"rates that were tried. {longer}, or try such rates too.",
            )
        if not why and below + above > WIDEST:
            unmeasured = "" if drift_known else " (how it moves was not measured on this optimizer)"
            cause, why = (
                "short runs",
                f"runs of {env_steps:,} environment steps say too little of one of {horizon:,}: its best rate lies "
                f"between {rate_text(low)} and {rate_text(high)}{unmeasured}. {longer}.",
            )
    return LearningRateEstimate(
        name=name, suggested=suggested, tested=tested, low=low, high=high, lowest=rates[0], highest=rates[-1],
        told_apart=told_apart, edge=edge, cost=cost, env_steps=env_steps, horizon=horizon, why_unsafe=why,
        cause=cause, drift_error=drift_error,
    )  # fmt: skip


_Why = tuple[Cause, str]

_ONLY_ONE: _Why = ("one rate", "only one rate came to its end, so there is nothing to compare it with.")


def _why_unsafe(tested: float, edge: Edge, interval: tuple[float, float], cost: float, told_apart: bool) -> _Why:
    if math.isnan(cost):
        return "one seed", "one seed each cannot tell rates apart. Give more seeds."
    if not told_apart and cost > LITTLE:
        return "not told apart", (
            "no rate was told from another, neither at the end nor where one was pruned. Train longer, or on more "
            "seeds."
        )
    if edge:
        other = "lower" if edge == "lowest" else "higher"
        return "edge", f"{rate_text(tested)} is the {edge} rate that was tried: {other} ones may be better."
    low, high = interval
    if cost > LITTLE and math.log10(high / low) > WIDEST:
        return "wide", (
            f"the best rate lies anywhere between {rate_text(low)} and {rate_text(high)}, and it matters which: "
            f"{cost_text(cost, 'one of them')}. Give more seeds."
        )
    return "", ""


def cost_of_choice(
    pick: Ranked, level: Sequence[Ranked], points: Sequence[Point], direction: Direction = "maximize"
) -> float:
    """Returns how much better than the pick one of these may be, as a share of the range of all candidates.

    Args:
        pick: The pick.
        level: Those that cannot be told from it.
        points: All candidates.
        direction: Whether a high or a low value is good.

    Returns:
        The share, at least 0, and more than 1 where nothing tells them apart; NaN where nothing is known of the spread.
    """
    if math.isnan(pick.low):
        return math.nan
    sign = 1.0 if direction == "maximize" else -1.0
    span = usual_range([sign * each.value for each in points if _known(each.value)])
    others = [each for each in level if each.number != pick.number]
    costs = [may_exceed(each, pick) if direction == "maximize" else may_exceed(pick, each) for each in others]
    return max([0.0, *costs]) / span if span > 0 else 0.0


def cost_text(cost: float, which: str) -> str:
    """Returns what a wrong choice may cost: `one of them may be better by up to 25% of the range of all trials`.

    Args:
        cost: The share of that range; see `cost_of_choice`.
        which: The subject of the sentence.
    """
    if cost < 1:
        return f"{which} may be better by up to {cost:.0%} of the range of all trials"
    return "nothing tells them apart"


def _rate(point: Point, name: str) -> float:
    rate = point.params[name]
    assert isinstance(rate, int | float)  # `rate_name` has looked
    return float(rate)


def _known(value: float) -> bool:
    return not math.isnan(value)
