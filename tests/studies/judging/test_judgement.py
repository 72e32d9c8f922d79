"""Judgement of a search from its history alone, without a storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from histories import FURTHER, TRIALS, complete

from studies.judging.distinct_schedules import shared_part
from studies.judging.estimates import at_confirmed_length
from studies.judging.judgement import as_judged, finalists, judge, pruned_estimates, unconfirmed
from studies.judging.search_history import SearchHistory, TrialResult
from studies.population_based.schedule import ScheduleEntry


def history_of(*trials: TrialResult, n_finalists: int = 2, **fields: Any) -> SearchHistory:
    return SearchHistory(trials=trials, n_finalists=n_finalists, further_seeds=FURTHER, **fields)


@pytest.mark.parametrize(("direction", "numbers"), [("maximize", [1, 2]), ("minimize", [0, 2])])
def test_finalists_are_the_best_of_the_complete_trials(direction: Any, numbers: list[int]):
    history = history_of(*TRIALS, replace(TRIALS[1], number=3, state="pruned"), direction=direction)
    assert [each.number for each in finalists(history)] == numbers
    assert finalists(history_of(TRIALS[0])) == []  # there was nothing to choose


def test_trials_that_never_learned_are_no_finalists():
    lucky = [complete(k, 99.0, 99.0, 99.0, learned=False) for k in (3, 4)]
    assert [each.number for each in finalists(history_of(*TRIALS, *lucky))] == [1, 2]
    assert [each.number for each in finalists(history_of(TRIALS[0], *lucky))] == [0]
    assert [each.number for each in finalists(history_of(*lucky))] == [3, 4]


def test_baseline_is_a_finalist_beside_the_best_if_it_was_completed():
    def numbers(*trials: TrialResult, **fields: Any) -> list[int]:
        return [each.number for each in finalists(history_of(*trials, **fields))]

    assert numbers(*TRIALS, baseline={"x": 0}) == [1, 2, 0]
    assert numbers(*TRIALS, baseline={"x": 2}) == [1, 2]
    assert numbers(*TRIALS, baseline={"x": 0}, n_finalists=0) == []
    assert numbers(replace(TRIALS[0], state="pruned"), *TRIALS[1:], baseline={"x": 0}) == [1, 2]
    again = replace(TRIALS[0], number=3)  # retried after a failure
    assert numbers(replace(TRIALS[0], state="failed"), *TRIALS[1:], again, baseline={"x": 0}) == [1, 2, 3]


def test_schedules_are_judged_by_further_runs_alone_and_each_by_its_own():
    # In the search members copied others that were better; the schedule of the best one is the worse of the two.
    trials = [complete(0, 500.0, 495.0, 498.0), complete(1, 400.0, 410.0, 405.0), complete(2, 300.0, 310.0, 290.0)]
    confirmations = (complete(3, 100.0, 110.0, confirms=0), complete(4, 140.0, 150.0, confirms=1))
    history = history_of(*trials, confirmations=confirmations, constant_params=False)
    found = judge(history)
    assert found.finalists_alone
    assert found.pick is not None
    assert found.pick.number == 1
    assert [(each.number, each.value) for each in found.ranked] == [(1, 145.0), (0, 105.0)]
    half = 12.706 * 50**0.5 / 2**0.5  # Student's t with one degree of freedom, of the two seeds of one schedule
    assert found.ranked[0].high - 145.0 >= 0.99 * half
    assert judge(replace(history, constant_params=True)).pick.number == 0  # type: ignore[union-attr]


def schedule(*numbers: float) -> tuple[ScheduleEntry, ...]:
    """Return a schedule with these numbers, each for 100 environment steps."""
    return tuple(ScheduleEntry(env_steps=100 * at, params={"x": number}) for at, number in enumerate(numbers))


def test_schedules_share_the_part_with_equal_numbers():
    assert shared_part(schedule(1, 2, 3, 4), schedule(1, 2, 5, 4), 400) == 0.75
    assert shared_part(schedule(1, 1, 1, 1), schedule(1), 400) == 1.0
    assert shared_part(schedule(1, 2), schedule(1), 150) == pytest.approx(2 / 3)
    assert shared_part(schedule(1), schedule(2), 400) == 0.0


def test_finalists_have_different_schedules():
    """Trials 1 to 3 share more than half of the schedule of trial 0, of which trial 3 has all, and trial 4 a half."""
    trials = [complete(number, 10.0 - number) for number in range(6)]
    schedules = {
        0: schedule(1, 2, 3, 4), 1: schedule(1, 2, 3, 5), 2: schedule(1, 2, 9, 4), 3: schedule(1, 2, 3, 4),
        4: schedule(1, 2, 6, 7), 5: schedule(1, 2, 6, 8),
    }  # fmt: skip

    def chosen(n: int, *confirmations: TrialResult) -> list[int]:
        history = history_of(
            *trials, n_finalists=n, confirmations=confirmations, constant_params=False, schedules=schedules,
            env_steps=400,
        )  # fmt: skip
        return [number for number, _ in unconfirmed(history, lambda: judge(history))]

    assert chosen(2) == [0, 4]
    assert chosen(3) == [0, 4, 1], "near-copies follow, the best first"
    assert chosen(6) == [0, 4, 1, 2, 5], "no schedule is confirmed twice"
    lost = TrialResult(number=6, params={"x": 0}, state="diverged", confirms=0, reason="NaN")
    kept = complete(7, 6.0, 6.0, confirms=4)
    assert chosen(2, lost, kept) == [1], "trial 5 is nearly trial 4, and trial 1 nearly trial 0, but better"


@pytest.mark.parametrize("state", ["pruned", "diverged"])
def test_the_only_complete_trial_is_a_finalist_if_others_were_given_up(state: Any):
    history = history_of(TRIALS[0], replace(TRIALS[1], state=state))
    assert [each.number for each in finalists(history)] == [0]
    assert finalists(history_of(TRIALS[0], replace(TRIALS[1], state="failed"))) == []


def test_each_finalist_is_to_be_run_on_the_seeds_that_it_lacks():
    history = history_of(*TRIALS)
    assert unconfirmed(history, lambda: judge(history)) == [(1, FURTHER), (2, FURTHER)]
    half = replace(complete(3, 9.0, 9.0, confirms=1), seed_values={4: 9.0})
    lost = TrialResult(number=4, params={"x": 2}, state="diverged", confirms=2, reason="NaN")
    some = replace(history, confirmations=[half, lost])
    assert unconfirmed(some, lambda: judge(some)) == [(1, (3,))]
    none = replace(some, n_finalists=0)  # its search was run again without a confirmation
    assert unconfirmed(none, lambda: judge(none)) == []
    assert judge(some).refuted == {2: "NaN"}


def test_trial_that_is_clearly_better_than_all_confirmed_ones_is_confirmed_too():
    runs = [complete(number, 1.0, 1.0, confirms=number - 2) for number in (3, 4)]
    history = history_of(*TRIALS, confirmations=runs)
    found = judge(history)
    assert {each.number for each in found.confirmed} == {1, 2}
    assert unconfirmed(history, lambda: found) == []  # no trial is distinguished from them
    best = next(each for each in found.ranked if each.number == 0)
    others = [replace(each, tied=False) for each in found.ranked if each is not best]
    clear = replace(found, ranked=[replace(best, tied=True), *others])
    assert unconfirmed(history, lambda: clear) == [(0, FURTHER)]
    assert unconfirmed(replace(history, n_finalists=1), lambda: clear) == []  # two are confirmed, twice as many


def test_pick_is_chosen_by_all_seeds_and_valued_by_the_further_ones():
    runs = [complete(3, 4.0, 5.0, confirms=1), complete(4, 9.0, 9.5, confirms=2)]
    verdict = judge(history_of(*TRIALS, confirmations=runs))
    assert verdict.pick is not None
    assert verdict.confirmation is not None
    assert (verdict.pick.number, verdict.pick.value) == (2, 9.0)
    assert verdict.confirmation.held_out.value == 9.25
    assert verdict.confirmation.seed_values == {3: 9.0, 4: 9.5}
    assert verdict.confirmation.runs == (runs[1],)


def test_longer_runs_of_finalists_choose_the_pick_alone():
    runs = [complete(3, 13.0, 13.0, confirms=1), complete(4, 14.0, 13.0, confirms=2)]
    history = history_of(*TRIALS, confirmations=runs, env_steps=100, confirm_env_steps=200)
    verdict = judge(history)
    assert verdict.pick is not None
    assert verdict.confirmation is not None
    assert (verdict.pick.number, verdict.pick.value) == (2, 9.0)  # its value in the search
    assert [(each.number, each.value) for each in verdict.ranked] == [(2, 13.5), (1, 13.0)]
    assert [each.value for each in verdict.tuning] == [10.0, 9.0, 2.0]
    assert (verdict.confirmation.held_out.value, verdict.confirmation.beyond_noise) == (13.5, False)
    assert np.isnan(verdict.confirmation.bias)  # values after 100 and 200 steps cannot be compared
    [left] = verdict.estimated
    assert (left.params["x"], left.value) == (0, pytest.approx(2.0 + (3.0 + 4.5) / 2))  # the finalists gained 3 and 4.5
    assert unconfirmed(history, lambda: verdict) == []
    same = judge(replace(history, confirm_env_steps=None))  # (30 + 26) / 5 is more than (27 + 27) / 5
    assert same.pick is not None
    assert same.pick.number == 1


ONE_SEED = tuple(complete(number, value) for number, value in enumerate((8.5, 10.0, 9.0, 4.0)))


@pytest.mark.parametrize("env_steps", [100, None])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_further_seeds_of_finalists_choose_alone_where_trials_have_one_seed(env_steps: int | None, sign: float):
    trials = [complete(number, sign * value) for number, value in enumerate((8.5, 10.0, 9.0, 4.0))]
    runs = [complete(5, sign * 6.0, sign * 6.0, confirms=1), complete(6, sign * 9.0, sign * 8.0, confirms=2)]
    history = history_of(
        *trials, confirmations=runs, env_steps=env_steps, direction="maximize" if sign > 0 else "minimize"
    )
    verdict = judge(history)
    assert verdict.pick is not None
    assert verdict.confirmation is not None
    assert (verdict.finalists_alone, verdict.pick.number, verdict.pick.value) == (True, 2, sign * 9.0)
    assert [(each.number, each.value) for each in verdict.ranked] == [(2, sign * 8.5), (1, sign * 6.0)]
    assert [each.number for each in verdict.tuning] == [1, 2, 0, 3]
    assert (verdict.confirmation.bias, verdict.confirmation.beyond_noise) == (0.5, False)
    assert np.isnan(verdict.confirmation.reach)  # one seed in the search
    # The finalists had 9.5 and have 7.25 on further seeds, which is less than the median of all, 8.75.
    assert {each.params["x"]: each.value for each in verdict.estimated} == {0: sign * 7.25, 3: sign * 4.0}
    assert unconfirmed(history, lambda: verdict) == []  # 8.5 on a single seed is luck, too
    two = replace(trials[3], seed_values={0: sign * 4.0, 1: sign * 4.0})
    assert not judge(replace(history, trials=[*trials[:3], two])).finalists_alone


def test_next_best_trials_of_one_seed_replace_finalists_that_diverged():
    def lost(number: int, confirms: int) -> TrialResult:
        return TrialResult(number=number, params={"x": confirms}, state="diverged", confirms=confirms, reason="NaN")

    def asked(*runs: TrialResult, **fields: Any) -> list[int]:
        history = history_of(*ONE_SEED, confirmations=runs, **fields)
        return [number for number, _ in unconfirmed(history, lambda: judge(history))]

    assert asked() == [1, 2]
    kept = complete(5, 6.0, 6.0, confirms=1)
    assert asked(kept, lost(6, 2)) == [0]
    assert asked(kept, lost(6, 2), lost(7, 0)) == [3]
    assert asked(kept, lost(6, 2), lost(7, 0), lost(8, 3)) == []
    assert asked(kept, lost(6, 2), n_finalists=1) == []
    replaced = (kept, lost(6, 2), replace(complete(7, 8.0, 8.0, confirms=0), seed_values={3: 8.0}))
    assert asked(*replaced) == [0], "it has one of two further seeds"
    baseline = {"baseline": {"x": 3}}  # is no rival
    assert asked(complete(5, 6.0, 6.0, confirms=3), lost(6, 1), lost(7, 2), **baseline) == [0]
    untrained = [*ONE_SEED[1:], replace(ONE_SEED[0], learned=False)]
    history = history_of(*untrained, confirmations=[kept, lost(6, 2)])
    assert [number for number, _ in unconfirmed(history, lambda: judge(history))] == [3]


def test_baseline_says_nothing_about_the_luck_of_finalists():
    runs = [complete(5, 6.0, 6.0, confirms=1), complete(6, 9.0, 8.0, confirms=2), complete(7, 8.0, 8.0, confirms=3)]
    verdict = judge(history_of(*ONE_SEED, confirmations=runs, baseline={"x": 3}))
    assert {each.params["x"]: each.value for each in verdict.estimated} == {0: 7.25}


def test_runs_of_finalists_that_were_stopped_are_compared_with_the_search_at_their_length():
    trials = [
        replace(trial, reports={40: 0.0, 80: value, 100: trial.value}, left_at=100)
        for trial, value in zip(TRIALS, (1.0, 7.0, 8.0), strict=True)
    ]
    late = replace(complete(5, 9.0, 9.0, 9.0), state="pruned", left_at=90, reports={40: 0.0, 80: 6.5, 90: 9.0})
    early = replace(complete(6, 0.5, 0.5, 0.5), state="pruned", left_at=40, reports={40: 0.5})
    other = replace(complete(7, 3.0, 3.0, 3.0), reports={75: 2.0, 85: 4.0, 100: 3.0})  # 3.0 after 80 steps
    runs = [
        replace(complete(3, 6.0, 6.0, confirms=1), left_at=80), replace(complete(4, 7.5, 8.5, confirms=2), left_at=80),
    ]  # fmt: skip
    history = history_of(*trials, late, early, other, stopped=runs, env_steps=100)
    alike = at_confirmed_length(as_judged(history))
    assert (alike.env_steps, alike.confirms_apart) == (80, False)
    assert [(each.number, each.state, each.value) for each in alike.trials] == [
        (0, "complete", 1.0), (1, "complete", 7.0), (2, "complete", 8.0), (5, "complete", 6.5), (6, "pruned", 0.5),
        (7, "complete", 3.0),
    ]  # fmt: skip
    verdict = judge(history)
    assert verdict.pick is not None
    assert verdict.confirmation is not None
    assert (verdict.pick.number, verdict.pick.value) == (2, 9.0), "its value in the search"
    assert verdict.finalists_alone
    assert [(each.number, each.value) for each in verdict.ranked] == [(2, 8.0), (1, 6.0)]
    assert np.isnan(verdict.confirmation.bias), "values after 100 and 80 steps cannot be compared"
    assert {each.params["x"] for each in verdict.estimated} == {0, 5, 6, 7}
    assert max(each.value for each in verdict.estimated) <= 6.5
    assert (verdict.confirm_env_steps, verdict.confirms_apart) == (80, True)
    assert unconfirmed(history, lambda: verdict) == [(1, FURTHER), (2, FURTHER)], "they are run to their ends"
    assert at_confirmed_length(history).trials == history.trials


def test_stopped_finalists_count_while_none_has_ended_and_all_have_one_report():
    def stopped(number: int, confirms: int, at: int = 80) -> TrialResult:
        return replace(complete(number, 5.0, 5.0, confirms=confirms), left_at=at)

    ended, diverged = complete(6, 7.0, 7.0, confirms=1), replace(complete(7, 1.0, 1.0, confirms=1), state="diverged")
    both = history_of(*TRIALS, stopped=[stopped(3, 1), stopped(4, 2)], env_steps=100)
    assert [run.number for run in as_judged(both).confirmations] == [3, 4]
    assert as_judged(both).confirm_budget == 80
    for own in (
        replace(both, confirmations=[ended]),
        replace(both, stopped=[stopped(3, 1), stopped(4, 2, at=90)]),
        replace(both, stopped=[stopped(4, 2)]),
        replace(both, stopped=[stopped(3, 1), stopped(4, 0)]),  # no finalist any more
    ):
        assert as_judged(own) is own
    without = replace(both, stopped=[stopped(4, 2)], confirmations=[diverged])
    assert [run.number for run in as_judged(without).confirmations] == [7, 4]
    assert list(judge(without).refuted) == [1]


def test_seed_counts_once():
    twice = [complete(number, 5.0, 7.0, confirms=1) for number in (3, 4)]
    verdict = judge(history_of(*TRIALS, confirmations=twice))
    assert [each.held_out.n_seeds for each in verdict.confirmed] == [2]


def test_search_chooses_where_all_longer_runs_failed():
    runs = [TrialResult(number=k, params={"x": k - 2}, state="diverged", confirms=k - 2) for k in (3, 4)]
    verdict = judge(history_of(*TRIALS, confirmations=runs, env_steps=100, confirm_env_steps=200))
    assert verdict.pick is not None
    assert (verdict.pick.number, verdict.confirmation) == (0, None)
    assert {each.params["x"] for each in verdict.estimated} == {1, 2}


def test_untrained_trials_are_no_picks():
    verdict = judge(history_of(TRIALS[0], complete(1, 99.0, 99.0, 99.0, learned=False), TRIALS[2]))
    assert verdict.pick is not None
    assert verdict.pick.number == 2


def test_value_of_a_pruned_trial_is_extrapolated_by_the_gains_of_the_others():
    others = [complete(i, *(10.0 + 5 * i + seed for seed in range(3)), reports={50: 6.0 + 5 * i}) for i in range(2)]
    gone = TrialResult(
        number=2, params={"x": 2}, state="pruned", value=3.0, seed_values={0: 2.0, 1: 4.0}, reports={50: 3.0},
        left_at=50,
    )  # fmt: skip
    [estimated] = pruned_estimates(history_of(*others, gone))
    assert estimated.value == pytest.approx(3.0 + 5.0)  # both of the others gained 5 from there
    diverged = TrialResult(number=3, params={"x": 3}, state="diverged")
    failed = TrialResult(number=4, params={"x": 4}, state="failed")
    estimates = pruned_estimates(history_of(*others, gone, diverged, failed))
    assert [each.params["x"] for each in estimates] == [2, 3]
    assert np.isnan(estimates[1].value)
    retried = pruned_estimates(history_of(*others, diverged, replace(gone, number=5, params={"x": 3})))
    assert [each.params["x"] for each in retried] == [3]
    assert np.isfinite(retried[0].value)


def test_complete_trials_are_read_once_however_many_were_pruned():
    class Reports(dict[int, float]):
        """Reports that count how often they are read."""

        n_read = 0

        def __getitem__(self, step: int) -> float:
            self.n_read += 1
            return super().__getitem__(step)

    def pruned(number: int, optimizer: str) -> TrialResult:
        return TrialResult(
            number=number, params={"x": number, "optimizer": optimizer}, state="pruned", value=0.0, left_at=50
        )

    others = [
        replace(complete(n, end, end, reports=Reports({50: 1.0})), params={"x": n, "optimizer": name})
        for n, (name, end) in enumerate((("adam", 3.0), ("adam", 5.0), ("sgd", 11.0)))
    ]
    gone = [pruned(n, name) for n, name in enumerate(("adam", "sgd", "adam", "lion", "sgd"), start=3)]
    estimates = pruned_estimates(history_of(*others, *gone))
    assert [each.value for each in estimates] == [3.0, 10.0, 3.0, 0.0, 10.0]  # the gains of lion are unknown
    assert [each.reports.n_read for each in others] == [1, 1, 1]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bias_beyond_noise_is_that_beyond_the_inner_sides_of_both_intervals(sign: float):
    """Where all runs of the search reached the bound, half of their interval is missing."""
    values = ((500.0, 500.0, 500.0), (420.0, 470.0, 500.0), (300.0, 350.0, 400.0))
    trials = [complete(number, *(sign * value for value in own)) for number, own in enumerate(values)]
    runs = [complete(3, sign * 480.0, sign * 490.0, confirms=0)]
    history = history_of(*trials, confirmations=runs, direction="maximize" if sign > 0 else "minimize", n_finalists=1)
    found = judge(history).confirmation
    assert found is not None
    best_end = found.tuning.compared_high if sign > 0 else found.tuning.compared_low
    assert (found.number, best_end, found.bias) == (0, sign * 500.0, 15.0)
    towards = [
        abs(found.tuning.value - (found.tuning.compared_low if sign > 0 else found.tuning.compared_high)),
        abs(found.held_out.value - (found.held_out.compared_high if sign > 0 else found.held_out.compared_low)),
    ]
    assert found.reach == pytest.approx(np.hypot(*towards))


def test_refuted_trials_are_picks_before_untrained_ones():
    untrained = complete(3, 99.0, 99.0, 99.0, learned=False)
    runs = [TrialResult(number=10 + k, params={"x": k}, state="diverged", confirms=k, reason="NaN") for k in range(3)]
    verdict = judge(history_of(*TRIALS, untrained, confirmations=runs))
    assert verdict.pick is not None
    assert (verdict.pick.number, set(verdict.refuted)) == (1, {0, 1, 2})


def test_further_finalists_get_all_further_seeds():
    runs = [complete(3, 9.0, 10.0, confirms=1), complete(4, 8.0, 9.0, confirms=2)]
    late = replace(complete(5, 2.0, 2.0, confirms=0), seed_values={4: 2.0})  # was not among the best two
    history = history_of(*TRIALS, confirmations=[*runs, late])
    assert unconfirmed(history, lambda: judge(history)) == [(0, (3,))]


def test_refuted_trial_of_the_search_is_no_rung_of_longer_runs():
    """A confirmation on one seed, and a refutation on another, leave the trial out of all estimates."""
    half = replace(complete(3, 9.0, 9.0, confirms=2), seed_values={4: 9.0})
    lost = TrialResult(number=4, params={"x": 2}, state="diverged", confirms=2, reason="NaN")
    kept = complete(5, 12.0, 12.0, confirms=1)
    history = history_of(*TRIALS, confirmations=[kept, half, lost], env_steps=100, confirm_env_steps=200)
    values = {each.params["x"]: each.value for each in judge(history).estimated}
    assert np.isnan(values[2])
    assert len([each for each in judge(history).estimated if each.params["x"] == 2]) == 1


def test_baseline_that_is_distinguished_from_the_best_does_not_remain():
    trials = [
        TrialResult(number=k, params={"x": k}, state="complete", value=v, seed_values={0: v})
        for k, v in enumerate([97.0, 96.5, 96.0, 60.0, 40.0, 20.0, 10.0, 0.0])
    ]
    runs = [
        TrialResult(
            number=10 + k, params={"x": k}, state="complete", value=v, confirms=k,
            seed_values={seed: v + 0.05 * (seed % 3 - 1) for seed in range(1, 1 + n)},
        )
        for k, v, n in ((0, 97.0, 5), (1, 96.5, 5), (2, 95.0, 1))
    ]  # fmt: skip
    history = SearchHistory(
        trials=trials, confirmations=runs, n_finalists=2, further_seeds=(1, 2, 3, 4, 5), baseline={"x": 2}
    )
    verdict = judge(history)
    assert verdict.pick is not None
    assert verdict.pick.number == 0


def test_trial_without_values_of_seeds_is_judged_beside_longer_confirmations() -> None:
    def trial(number: int, value: float, seeds: Sequence[float], **fields: Any) -> TrialResult:
        seed_values = dict(enumerate(seeds))
        return TrialResult(number=number, state="complete", value=value, seed_values=seed_values, **fields)

    trials = [
        trial(k, value, seeds, params={"learning_rate": 10.0 ** (k - 4)}, reports={1000: value}, left_at=1000)
        for k, (value, seeds) in enumerate([(100, [90, 110]), (200, [190, 210]), (150, [140, 160]), (120, [])])
    ]
    confirmations = [
        trial(4, 400.0, [390, 410], params=trials[1].params, confirms=1),
        trial(5, 300.0, [290, 310], params=trials[2].params, confirms=2),
    ]
    steps = {"env_steps": 1000, "confirm_env_steps": 4000}
    given = history_of(*trials, confirmations=confirmations, **steps)
    pick = judge(given).pick
    assert pick is not None
    assert pick.number == 1
