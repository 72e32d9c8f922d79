"""Comparison of a pick with the baseline, worked out by hand from the intervals of both."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from histories import FURTHER, TRIALS, complete

from studies.judging.baseline import BaselineComparison, compared_with_baseline
from studies.judging.judgement import judge
from studies.judging.search_history import SearchHistory, TrialResult


def compared(*trials: TrialResult, baseline: int, **fields: Any) -> BaselineComparison | None:
    given = {"n_finalists": 2, "further_seeds": FURTHER, "baseline": {"x": baseline}, **fields}
    history = SearchHistory(trials=trials, **given)
    return compared_with_baseline(history, judge(history))


@pytest.mark.parametrize(("direction", "baseline", "pick"), [("maximize", 0, 1), ("minimize", 1, 0)])
def test_gain_and_its_interval_are_those_of_the_difference(direction: Any, baseline: int, pick: int) -> None:
    found = compared(*TRIALS, baseline=baseline, direction=direction)
    assert found is not None
    assert (found.trial, found.state, found.is_pick, found.confirmed) == (baseline, "complete", False, False)
    assert (found.gain, found.value, found.n_seeds) == (8.0, [2.0, 10.0][baseline], 3)
    verdict = judge(SearchHistory(trials=TRIALS, n_finalists=2, further_seeds=FURTHER, direction=direction))
    half = [(each.compared_high - each.compared_low) / 2 for each in verdict.tuning if each.number in (baseline, pick)]
    assert found.high - found.gain == pytest.approx(math.hypot(*half))
    assert found.gain - found.low == pytest.approx(math.hypot(*half))


def test_further_seeds_are_compared_if_they_confirmed_both() -> None:
    runs = [complete(3, 9.0, 9.5, confirms=1), complete(4, 4.0, 5.0, confirms=0)]
    found = compared(*TRIALS, baseline=0, confirmations=runs)
    assert found is not None
    assert (found.confirmed, found.value, found.gain, found.n_seeds) == (True, 4.5, 4.75, 2)
    of_search = compared(*TRIALS, baseline=0, confirmations=runs[:1])
    assert of_search is not None
    assert (of_search.confirmed, of_search.gain) == (False, 8.0)


def test_baseline_without_a_value_has_a_state() -> None:
    pruned = replace(TRIALS[0], state="pruned", left_at=500)
    found = compared(pruned, replace(TRIALS[1], reports={500: 7.0}), TRIALS[2], baseline=0)
    assert found is not None
    assert (found.state, found.left_at, found.value, found.pick_value) == ("pruned", 500, 2.0, 7.0)
    assert math.isnan(found.gain)
    assert found.to_json()["gain"] is None
    unknown = compared(pruned, *TRIALS[1:], baseline=0)
    assert unknown is not None
    assert math.isnan(unknown.pick_value)
    refuted = [TrialResult(number=4, params={"x": 0}, state="diverged", confirms=0, reason="NaN")]
    failed = compared(*TRIALS, baseline=0, confirmations=refuted)
    assert failed is not None
    assert (failed.state, failed.left_at) == ("diverged", None)


def test_baseline_that_is_the_pick_gains_nothing() -> None:
    found = compared(*TRIALS, baseline=1)
    assert found is not None
    assert (found.is_pick, found.gain, found.low, found.high) == (True, 0.0, 0.0, 0.0)


def test_nothing_is_compared_without_a_baseline_that_has_ended() -> None:
    assert compared(*TRIALS, baseline=7) is None
    assert compared(*TRIALS, TrialResult(number=7, params={"x": 7}, state="open"), baseline=7) is None
    history = SearchHistory(trials=TRIALS, n_finalists=2, further_seeds=FURTHER)
    assert compared_with_baseline(history, judge(history)) is None
