"""Comparison of a pick with the baseline of its search: what a search gains over training as before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from studies.judging.judgement import Verdict
from studies.judging.ranking import reach_above
from studies.judging.search_history import ResultState, SearchHistory, TrialResult
from studies.spaces.spaces import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """A pick beside the baseline.

    Attributes:
        trial: Number of the trial of the baseline.
        state: Its state; `diverged` also if it did on further seeds, where `confirmed` is True.
        is_pick: Whether it is the pick.
        left_at: Environment steps at which it was pruned; None if it was not.
        learned: Whether its value is that of a trained agent; an untrained one is not compared.
        confirmed: Whether both were compared on further seeds, rather than on those of the search.
        value: Mean of the baseline over these seeds, or its last value if it was pruned; NaN if it failed.
        pick_value: Mean of the pick over the same seeds, or at the environment steps at which the baseline was pruned.
        gain: Difference by which the pick is better; negative if it is worse, NaN if the baseline was not completed.
        low: Lower end of the 95% interval of the expected gain; NaN if it is unknown.
        high: Upper end.
        compared_low: Lower end without an allowance for collapses that no seed has shown, as trials are compared.
        n_seeds: Seeds of the baseline.
    """

    trial: int
    state: ResultState
    is_pick: bool
    left_at: int | None = None
    learned: bool = True
    confirmed: bool = False
    value: float = math.nan
    pick_value: float = math.nan
    gain: float = math.nan
    low: float = math.nan
    high: float = math.nan
    compared_low: float = math.nan
    n_seeds: int = 0

    def to_json(self) -> dict[str, Json]:
        """Return the comparison as JSON values: unknown numbers are None."""
        numbers = {
            "value": self.value,
            "pick_value": self.pick_value,
            "gain": self.gain,
            "low": self.low,
            "high": self.high,
        }
        return {
            "trial": self.trial,
            "state": self.state,
            "is_pick": self.is_pick,
            "left_at": self.left_at,
            "learned": self.learned,
            "confirmed": self.confirmed,
            **{name: None if math.isnan(number) else number for name, number in numbers.items()},
            "n_seeds": self.n_seeds,
        }


def compared_with_baseline(history: SearchHistory, verdict: Verdict) -> BaselineComparison | None:
    """Return the comparison of the pick with the baseline; None without a pick, or if no baseline has ended.

    Both are compared on the further seeds if these confirmed both, else on the seeds of the search, which chose the
    pick and therefore flatter it. A baseline that was pruned, failed or made no gradient step has no value to compare.

    Args:
        history: The search.
        verdict: The judgement on it.
    """
    baseline, pick = history.baseline_trial, verdict.pick
    if baseline is None or pick is None:
        return None
    number = baseline.number
    is_pick = number == pick.number
    if number in verdict.refuted:
        return BaselineComparison(trial=number, state="diverged", is_pick=is_pick, confirmed=True)
    if not baseline.learned:
        return BaselineComparison(trial=number, state=baseline.state, is_pick=is_pick, learned=False)
    further = {each.number: each.held_out for each in verdict.confirmed}
    confirmed = number in further and pick.number in further
    known = further if confirmed else {each.number: each for each in verdict.tuning}
    if number not in known:
        there = _where_pruned(baseline, history.of(pick.number)) if baseline.state == "pruned" else {}
        return BaselineComparison(trial=number, state=baseline.state, is_pick=False, **there)
    own, other = known[number], known[pick.number]
    higher, lower = (other, own) if history.direction == "maximize" else (own, other)
    gain, below, above, compared_below = higher.value - lower.value, 0.0, 0.0, 0.0
    if not is_pick:
        below, above = reach_above(lower, higher, collapses=True), reach_above(higher, lower, collapses=True)
        compared_below = reach_above(lower, higher)
    return BaselineComparison(
        trial=number, state=baseline.state, is_pick=is_pick, confirmed=confirmed, value=own.value,
        pick_value=other.value, gain=gain, low=gain - below, high=gain + above, compared_low=gain - compared_below,
        n_seeds=own.n_seeds,
    )  # fmt: skip


def _where_pruned(baseline: TrialResult, pick: TrialResult) -> dict[str, Any]:
    """Return where a baseline was pruned, with its value and that of the pick there, as far as they are known."""
    at, value = baseline.left_at, baseline.value
    there = None if at is None else pick.reports.get(at)
    return {
        "left_at": at,
        "value": math.nan if value is None else value,
        "pick_value": math.nan if there is None else there,
    }
