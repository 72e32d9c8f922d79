"""Which learning rate to use: between which rates the best one lies, whether that is safe, and for how long a run.

The best rate lies where the curve of values over rates may be highest (`studies.rate_curve`). How wide that is, in
decades, is how much is known.

A short run favours rates that are too high. So where the run that follows is longer than those of the study, the rate
is lowered (`studies.drift`), and the interval grows by how much that differs from task to task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from studies.drift import drift
from studies.ranking import Direction, Ranked
from studies.recommending import Left, Point, RateCurves, kind_key, rate_name
from studies.spaces import Json
from studies.values import usual_range
from studies.words import rate_text

WIDEST = 2.0
"""Decades that the interval may span where the choice within it matters."""

LITTLE = 0.1
"""Share of the range of all candidates below which the choice does not matter."""

Edge = Literal["", "lowest", "highest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFinding:
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


def rate_finding(
    ranked: Sequence[Ranked],
    left: Sequence[Left],
    pick: Ranked,
    direction: Direction = "maximize",
    *,
    env_steps: int | None = None,
    horizon: int | None = None,
) -> RateFinding | None:
    """Returns what is known of the best learning rate, with everything else as the pick has it.

    Args:
        ranked: All complete candidates, as `studies.ranking.rank` returns them, on all seeds that each has.
        left: What was tried but did not come to its end.
        pick: The candidate to use, one of `ranked`.
        direction: Whether a high or a low value is good.
        env_steps: Environment steps of each run.
        horizon: Environment steps of the run that the rate is for, at least 1; only with `env_steps`.

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
    cost = _cost(pick, level, points, direction)
    # What failed may have failed for another reason than its rate.
    valued = {_rate(each, name) for each in group if _known(each.value)}
    told_apart = not math.isnan(cost) and (
        any(not each.tied and _known(each.value) for each in own) or any(each.told for each in gone)
    )
    why = _why_unsafe(tested, edge, (low, high), cost, told_apart) if len(valued) > 1 else _ONLY_ONE
    suggested = tested
    if horizon is not None and env_steps is not None and horizon != env_steps:
        shift, error = drift(env_steps / horizon)
        below = math.hypot(math.log10(tested / low), 1.96 * error)
        above = math.hypot(math.log10(high / tested), 1.96 * error)
        suggested = float(f"{tested * 10**shift:.3g}")
        low, high = suggested * 10**-below, suggested * 10**above
        if not why and not rates[0] <= suggested <= rates[-1]:
            beyond = "below all" if suggested < rates[0] else "above all"
            why = (
                f"for a run of {horizon:,} environment steps it would be {rate_text(suggested)}, which lies {beyond} "
                f"rates that were tried. Train further (--env-steps), or try such rates too."
            )
        if not why and below + above > WIDEST:
            why = (
                f"runs of {env_steps:,} environment steps say too little of one of {horizon:,}: its best rate lies "
                f"between {rate_text(low)} and {rate_text(high)}. Train further (--env-steps)."
            )
    return RateFinding(
        name=name, suggested=suggested, tested=tested, low=low, high=high, lowest=rates[0], highest=rates[-1],
        told_apart=told_apart, edge=edge, cost=cost, env_steps=env_steps, horizon=horizon, why_unsafe=why,
    )  # fmt: skip


_ONLY_ONE = "only one rate came to its end, so there is nothing to compare it with."


def _why_unsafe(tested: float, edge: Edge, interval: tuple[float, float], cost: float, told_apart: bool) -> str:
    if math.isnan(cost):
        return "one seed each cannot tell rates apart. Give more seeds (--seeds)."
    if not told_apart and cost > LITTLE:
        return (
            "no rate was told from another, neither at the end nor where one was pruned. Train longer, or on more "
            "seeds (--seeds)."
        )
    if edge:
        other = "lower" if edge == "lowest" else "higher"
        return f"{rate_text(tested)} is the {edge} rate that was tried: {other} ones may be better."
    low, high = interval
    if cost > LITTLE and math.log10(high / low) > WIDEST:
        return (
            f"the best rate lies anywhere between {rate_text(low)} and {rate_text(high)}, and it matters which: one of "
            f"them may be better by {cost:.0%} of the range of all trials. Give more seeds (--seeds)."
        )
    return ""


def _cost(pick: Ranked, level: Sequence[Ranked], points: Sequence[Point], direction: Direction) -> float:
    """How much better than the pick one of these may be, as a share of the range of all candidates."""
    if math.isnan(pick.low):
        return math.nan
    sign = 1.0 if direction == "maximize" else -1.0
    span = usual_range([sign * each.value for each in points if _known(each.value)])
    costs = [
        sign * (each.value - pick.value) + math.hypot(each.high - each.low, pick.high - pick.low) / 2
        for each in level
        if each.number != pick.number
    ]
    return max([0.0, *costs]) / span if span > 0 else 0.0


def _rate(point: Point, name: str) -> float:
    rate = point.params[name]
    assert isinstance(rate, int | float)  # `rate_name` has looked
    return float(rate)


def _known(value: float) -> bool:
    return not math.isnan(value)
