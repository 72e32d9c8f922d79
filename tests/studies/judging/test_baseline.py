"""Comparison of a pick with the baseline, worked out by hand from the intervals of both."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from histories import FURTHER, TRIALS, complete

from studies.analysis.gain import gain_line
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
    of_pick, of_baseline = (next(each for each in verdict.tuning if each.number == k) for k in (pick, baseline))
    higher, lower = (of_pick, of_baseline) if direction == "maximize" else (of_baseline, of_pick)
    # The worse end of the pick allows for a collapse that no seed has shown.
    assert of_pick.high - of_pick.low > 1.2 * (of_pick.compared_high - of_pick.compared_low)
    assert found.gain - found.low == pytest.approx(math.hypot(higher.value - higher.low, lower.high - lower.value))
    assert found.high - found.gain == pytest.approx(math.hypot(higher.high - higher.value, lower.value - lower.low))


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


@pytest.mark.parametrize(
    ("direction", "best", "pick"),
    [("maximize", 10.49, 0), ("maximize", 10.55, 1), ("minimize", 9.51, 0), ("minimize", 9.45, 1)],
)
def test_baseline_remains_unless_a_finalist_is_clearly_better_on_one_further_seed(
    direction: Any, best: float, pick: int
) -> None:
    sign = 1.0 if direction == "maximize" else -1.0
    # Values from 0 to about 10: a twentieth of the range is 0.5. The baseline is 10 on the further seed.
    trials = [
        TrialResult(number=k, params={"x": k}, state="complete", value=v, seed_values={0: v})
        for k, v in enumerate([10.0, best, 10.0 - sign * 10.0])
    ]
    runs = [replace(trials[k], number=10 + k, confirms=k, seed_values={1: v}) for k, v in enumerate([10.0, best])]
    history = SearchHistory(
        trials=trials, confirmations=runs, n_finalists=2, further_seeds=(1,), baseline={"x": 0}, direction=direction,
        env_steps=1_000, confirm_env_steps=4_000,
    )  # fmt: skip
    verdict = judge(history)
    assert verdict.pick is not None
    assert (verdict.pick.number, verdict.ranked[0].number, verdict.confirmed[0].number) == (pick, 1, pick)
    without = judge(replace(history, baseline=None))
    assert without.pick is not None
    assert without.pick.number == 1
    worse = replace(trials[2], number=12, confirms=2, seed_values={1: trials[2].value, 2: trials[2].value})
    mixed = judge(replace(history, confirmations=[*runs, worse], n_finalists=3, further_seeds=(1, 2)))
    assert mixed.pick is not None
    assert mixed.pick.number == pick  # a finalist with further seeds says nothing about the luck of others
    two = [replace(run, seed_values={1: v, 2: v}) for run in runs for v in run.seed_values.values()]
    of_two = judge(replace(history, confirmations=two, further_seeds=(1, 2)))
    assert of_two.pick is not None
    assert of_two.pick.number == 1


@pytest.mark.parametrize(("best", "further", "suggested"), [(10.3, 1, 1e-3), (9.0, 1, 1e-3), (9.0, 2, 1.78e-4)])
def test_rate_of_a_baseline_that_remains_on_one_seed_is_not_corrected(
    best: float, further: int, suggested: float
) -> None:
    # The long run has ten times the steps of the finalists: the best rate is 0.75 decades lower there.
    trials = [
        TrialResult(number=k, params={"learning_rate": rate}, state="complete", value=v, seed_values={0: v})
        for k, (rate, v) in enumerate([(1e-3, 10.0), (3e-3, best), (1e-4, 0.0)])
    ]
    seeds = tuple(range(1, 1 + further))
    runs = [
        replace(trials[k], number=10 + k, confirms=k, seed_values=dict.fromkeys(seeds, v))
        for k, v in enumerate([10.0, best])
    ]
    verdict = judge(
        SearchHistory(
            trials=trials, confirmations=runs, n_finalists=2, further_seeds=seeds, baseline={"learning_rate": 1e-3},
            env_steps=1_000, confirm_env_steps=4_000, horizon=40_000,
        )
    )  # fmt: skip
    assert verdict.pick is not None
    assert verdict.rate is not None
    assert (verdict.pick.number, verdict.rate.suggested) == (0, suggested)


def test_baseline_that_made_no_gradient_step_is_not_compared() -> None:
    untrained = replace(TRIALS[0], learned=False)
    found = compared(untrained, *TRIALS[1:], baseline=0)
    assert found is not None
    assert (found.learned, found.state) == (False, "complete")
    assert math.isnan(found.gain)
    assert gain_line(found, judge(SearchHistory(trials=TRIALS, n_finalists=0, further_seeds=()))) == (
        "the baseline (#0, the agent's own settings) made no gradient step before the end of its last episode, so the "
        "gain is unknown: longer runs would show it"
    )


@pytest.mark.parametrize(
    ("low", "compared_low", "tied", "confirmed", "end"),
    [
        (2.0, 2.0, False, True, "expected 2.0 to 9.0 (95%)"),
        (-2.0, -2.0, True, True, "(95%), so there may be none"),
        (-2.0, 1.0, True, True, "(95%), so there may be none"),
        (-2.0, -2.0, None, True, "(95%), so there may be none"),
        (-2.0, 1.0, False, True, "expected -2 to 9 (95%): there is one, unless runs collapse as none of these did"),
        (-2.0, -1.0, False, True, "(95%) by the further seeds alone; all seeds together distinguish the two"),
        (-2.0, -1.0, False, False, "expected -2 to 9 (95%)"),
        (2.0, 2.0, True, True, "(95%), compared with it alone; among all trials it is tied with the best"),
    ],
)
def test_gain_does_not_contradict_the_verdict(
    low: float, compared_low: float, tied: bool | None, confirmed: bool, end: str
) -> None:
    numbers = {"gain": 3.0, "low": low, "compared_low": compared_low, "high": 9.0, "value": 1.0, "pick_value": 4.0}
    found = BaselineComparison(trial=0, state="complete", is_pick=False, confirmed=confirmed, **numbers)
    verdict = judge(SearchHistory(trials=TRIALS, n_finalists=0, further_seeds=()))
    ranked = [replace(each, tied=bool(tied)) for each in verdict.ranked if each.number or tied is not None]
    assert gain_line(found, replace(verdict, ranked=ranked)).endswith(end)
