"""Tests of the limit of a search with meters whose costs are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from limits import Clock, spec, time_meter

from finder.budgets.cost import LOST_AT_RUNGS, RECORDING, Costs
from finder.budgets.limit import Limit
from finder.budgets.meters import LATE, StepMeter, TimeMeter
from finder.budgets.search_plan import unfinished_text
from finder.trials.speed import Speed
from finder.trials.trial import BudgetSpent, Work
from studies.adapters.expected_pruning import Stage


def begun(limit: Limit, n: int) -> None:
    for number in range(n):
        assert limit.request_trial(), number
        limit.begun(number, 1)


def values(n: int) -> dict[int, dict[int, float]]:
    """Return values of trials, of which higher numbers are better."""
    return {number: {0: float(number)} for number in range(n)}


def test_trials_begin_while_all_of_them_fit() -> None:
    # 800 + 800 + 700 + 1200 + 800 + 900 steps of eight racing trials.
    limit = Limit(spec(), StepMeter(5_200), together=True)
    begun(limit, 8)
    assert not limit.ended_search
    limit = Limit(spec(), StepMeter(5_199), together=True)
    begun(limit, 7)
    assert not limit.request_trial()
    assert limit.ended_search


def test_any_trial_with_a_process_of_its_own_may_come_to_its_end() -> None:
    limit = Limit(spec(), StepMeter(5_200), together=False)
    begun(limit, 5)
    assert not limit.request_trial()
    assert not limit.has_spare
    limit.ended(0, 100)  # pruned
    assert limit.request_trial()  # 100 + 4 * 1,000 + 1,000 steps
    assert limit.has_spare
    limit.begun(5, 1)
    assert not limit.request_trial()


def test_budget_of_the_confirmation_is_reserved() -> None:
    own = spec(confirm=2, confirm_seeds=3)
    limit = Limit(own, StepMeter(5_200 + 6_000), together=True)
    assert limit.reserve == 6_000
    begun(limit, 8)
    limit = Limit(own, StepMeter(5_200 + 5_999), together=True)
    begun(limit, 7)
    assert not limit.request_trial()


def test_nothing_is_pruned_at_a_rung_while_the_rest_fits() -> None:
    limit = Limit(spec(), StepMeter(5_200), together=True)
    begun(limit, 8)
    assert limit.rung(100, values(8), set()) == set()


def test_the_worst_are_pruned_at_a_rung_where_the_rest_does_not_fit() -> None:
    meter = StepMeter(5_200)
    limit = Limit(spec(), meter, together=True)
    begun(limit, 8)
    meter.limit = 4_000  # 3,200 are left after 800; three trials need 2,700, four 3,300
    assert limit.rung(100, values(8), set()) == {0, 1, 2, 3, 4}


def test_nothing_is_pruned_before_the_first_update() -> None:
    meter = StepMeter(5_200)
    limit = Limit(spec(), meter, together=True, first_update=100)
    begun(limit, 8)
    meter.limit = 4_000
    assert limit.rung(100, values(8), set()) == set()
    assert limit.rung(200, values(8), set()) == {0, 1, 2, 3, 4}  # 2,400 are left after 1,600; three trials need 2,400


def test_further_seeds_are_given_up_before_finalists() -> None:
    meter = StepMeter(100_000)
    limit = Limit(spec(confirm=3, confirm_seeds=5), meter, together=True)  # 15,000 steps are reserved
    begun(limit, 8)
    meter.limit = 800 + 2_700 + 6_000  # three trials to their end, and two further seeds of each
    assert limit.rung(100, values(8), set()) == {0, 1, 2, 3, 4}
    meter.limit -= 1
    assert limit.rung(100, values(8), set()) == {0, 1, 2, 3, 4, 5}
    given = Limit(spec(confirm=3, confirm_seeds=5), meter, together=True, adjusts_seeds=False)
    meter.limit = 100_000
    begun(given, 8)
    meter.limit = 800 + 2_700 + 6_000
    assert given.rung(100, values(8), set()) == {0, 1, 2, 3, 4, 5, 6}


def test_the_baseline_is_not_pruned_in_place_of_the_best_trial() -> None:
    meter = StepMeter(5_200)
    limit = Limit(spec(), meter, together=True)
    begun(limit, 8)
    limit.begun(1, 1, is_baseline=True)
    meter.limit = 4_000
    assert limit.rung(100, values(8), set()) == {0, 2, 3, 4, 5}
    meter.limit = 801
    assert limit.rung(100, values(8), {0}) == {2, 3, 4, 5, 6}


def test_budget_is_reserved_for_the_baseline_beside_the_best_trials() -> None:
    limit = Limit(spec(confirm=2, confirm_seeds=3, baseline={"learning_rate": 0.1}), StepMeter(20_000), together=True)
    limit.begun(0, 1, is_baseline=True)
    for number, value in enumerate([5.0, 6.0]):
        limit.ended(number, 1_000, value)
        assert limit.reserve == 9_000  # the baseline may yet be worse than two others


def test_a_finalist_that_is_not_known_yet_is_as_fast_as_the_mean() -> None:
    clock = Clock()
    own = spec(confirm=2, confirm_seeds=5, baseline={"learning_rate": 0.1})
    for finalist, n_seeds in ((2, 12), (0, 20)):  # of 2 s each, four fifths of 30 s; and of 0.5 s
        limit = Limit(own, time_meter(30.0, clock), together=True)
        limit.begun(0, 1, is_baseline=True)
        for number, (value, seconds) in enumerate([(7.0, 1.0), (6.0, 1.0), (5.0, 4.0)]):
            limit.ended(number, 1_000, value, Work(seconds, 1_000, 1_000))
        assert limit.reserve == pytest.approx(5.0 * (0.5 + 0.5 + 1))  # not the third one, which takes twice the mean
        meant = limit.plan_confirmation([finalist])
        assert meant is not None
        assert meant.confirm_seeds == n_seeds


def test_a_slow_baseline_has_a_larger_reserve() -> None:
    clock = Clock()
    own = spec(confirm=1, confirm_seeds=5, baseline={"learning_rate": 0.1})
    limit = Limit(own, time_meter(100.0, clock), together=True)
    limit.begun(0, 1, is_baseline=True)
    for number, (value, seconds) in enumerate([(5.0, 4.0), (6.0, 1.0), (7.0, 1.0)]):
        limit.ended(number, 1_000, value, Work(seconds, 1_000, 1_000))
    assert limit.reserve == pytest.approx(10.0 * (4 + 1) / 2 / 2)  # two finalists; 2 are usual


def test_losses_are_better_if_they_are_lower() -> None:
    meter = StepMeter(5_200)
    limit = Limit(spec(metric="loss"), meter, together=True)
    begun(limit, 8)
    meter.limit = 4_000
    assert limit.rung(100, values(8), set()) == {3, 4, 5, 6, 7}


def test_one_trial_continues_whatever_the_budget() -> None:
    meter = StepMeter(5_200)
    limit = Limit(spec(), meter, together=True)
    begun(limit, 8)
    meter.limit = 801
    assert limit.rung(100, values(8), {0}) == {1, 2, 3, 4, 5, 6}


def test_pruner_none_keeps_all_trials() -> None:
    meter = StepMeter(8_000)
    limit = Limit(spec(pruner="none"), meter, together=True)
    assert not limit.prunes
    begun(limit, 8)
    meter.limit = 801
    assert limit.rung(100, values(8), set()) == set()


def test_spent_steps_are_those_of_ended_and_running_trials() -> None:
    meter = StepMeter(10_000, before=50)
    limit = Limit(spec(), meter, together=True)
    begun(limit, 3)
    limit.rung(100, values(3), set())
    assert limit.spent == 50 + 300
    limit.ended(0, 100)
    assert limit.spent == 50 + 300
    limit.rung(200, {1: {0: 1.0}, 2: {0: 2.0}}, set())
    assert limit.spent == 50 + 100 + 400


def test_running_trials_stop_once_when_the_time_is_over() -> None:
    clock = Clock()
    limit = Limit(spec(), time_meter(60.0, clock), together=True)
    clock.now += LATE * 60 - 0.1
    limit.check()
    clock.now += 0.2
    with pytest.raises(BudgetSpent):
        limit.check()
    limit.check()  # running trials report while they are stopped


def test_time_of_earlier_runs_counts() -> None:
    clock = Clock()
    limit = Limit(spec(), time_meter(60.0, clock, before=56.0), together=True)
    assert limit.request_trial()  # 2 s of compilation and 1 s of training
    clock.now += 1.5
    assert limit.spent == 57.5
    assert not limit.request_trial()


def test_estimates_follow_the_speed_of_the_search() -> None:
    clock = Clock()
    meter = time_meter(60.0, clock)
    limit = Limit(spec(), meter, together=True)
    begun(limit, 8)
    clock.now += 20
    limit.rung(100, values(8), set())  # with the compilation, which says nothing about the speed
    assert meter.correction == 1.0
    clock.now += 8.0
    limit.rung(200, values(8), set())  # 8 runs of 100 steps were estimated to take 0.8 s
    assert meter.correction == pytest.approx((2 + 8) / (2 + 0.8))


def test_trials_with_processes_of_their_own_tell_their_speed_at_their_end() -> None:
    clock = Clock()
    meter = time_meter(60.0, clock)
    limit = Limit(spec(pruner="none"), meter, together=False)
    limit.begun(0, 1)
    clock.now += 9.0
    limit.rung(500, values(1), set())
    assert meter.correction == 1.0
    expected = 1.0 / (1 + RECORDING)
    limit.ended(0, 1_000, 5.0, Work(6.0, 1_000, 1_000))
    assert meter.correction == pytest.approx((2 + 6) / (2 + expected))
    assert meter.batch((Stage(1_000, 1),), 1, starts=False) == pytest.approx(8 / (2 + expected))


def test_processes_that_share_cores_are_as_fast_as_estimated() -> None:
    speed = Speed(n_runs=1, start_seconds=2.0, shared_seconds=0.0, run_seconds=0.001)
    costs = Costs(speeds={"ppo": speed}, n_processes=4, n_cores=2, together=False, own_processes=True)
    meter = TimeMeter(600.0, costs, clock=Clock())
    limit = Limit(spec(pruner="none"), meter, together=False)
    for number in range(4):
        limit.begun(number, 1)
    taken = costs.slowed_by_others(4) * 1.0
    assert taken == pytest.approx(2 * (1 + LOST_AT_RUNGS))
    limit.ended(0, 1_000, 5.0, Work(taken, 1_000, 1_000))
    assert meter.correction == pytest.approx(1.0)


def test_marks_of_a_process_that_is_behind_say_nothing_about_the_speed() -> None:
    clock = Clock()
    meter = time_meter(60.0, clock)
    limit = Limit(spec(pruner="none"), meter, together=True)
    begun(limit, 2)
    for first, second in ((100, 0), (200, 0), (300, 100), (400, 200), (500, 300)):
        clock.now += 0.2  # as estimated: two runs of 100 steps
        limit.rung(first, {0: {0: 1.0}}, set())
        if second:
            limit.rung(second, {1: {0: 1.0}}, set())
    assert meter.correction == pytest.approx(1.0)


def test_the_worst_are_pruned_if_the_search_is_slower_than_estimated() -> None:
    clock = Clock()
    limit = Limit(spec(), time_meter(20.0, clock), together=True)
    begun(limit, 8)
    clock.now += 2.0
    assert limit.rung(100, values(8), set()) == set()
    clock.now += 8.0  # ten times slower; the rest of 3.6 s takes 12.9 s, and 10 s are left
    pruned = limit.rung(200, values(8), {0})
    assert pruned == {1, 2, 3, 4}


def planned(limit: Limit, n_trials: int) -> tuple[int, int]:
    """Return the further seeds and environment steps of each run that confirms the first trials."""
    own = limit.plan_confirmation(range(n_trials))
    assert own is not None
    return own.confirm_seeds, own.confirm_budget


def test_spare_budget_goes_to_further_seeds() -> None:
    own = spec(confirm=2, confirm_seeds=3)
    assert planned(Limit(own, StepMeter(8_999), together=True), 2)[0] == 4
    assert planned(Limit(own, StepMeter(100_000), together=True), 2)[0] == 12  # four times as many at most
    assert planned(Limit(own, StepMeter(100_000), together=True, adjusts_seeds=False), 2)[0] == 3


def test_more_seeds_than_planned_leave_a_fifth_of_the_minutes() -> None:
    own, clock = spec(confirm=2, confirm_seeds=3), Clock()
    costs = time_meter(100.0, clock).confirmation(1_000, 2, 1)
    assert planned(Limit(own, time_meter(10 * costs, clock), together=True), 2)[0] == 8
    assert planned(Limit(own, time_meter(3.1 * costs, clock), together=True), 2)[0] == 3


def test_a_short_rest_gives_fewer_seeds_or_none() -> None:
    own = spec(confirm=2, confirm_seeds=3)
    assert planned(Limit(own, StepMeter(5_000), together=True), 2)[0] == 2
    assert Limit(own, StepMeter(1_999), together=True).plan_confirmation(range(2)) is None
    assert Limit(own, StepMeter(5_000), together=True, adjusts_seeds=False).plan_confirmation(range(2)) is None


def test_a_rest_that_is_too_short_for_one_seed_shortens_the_runs_that_confirm() -> None:
    own = spec(confirm=2, confirm_seeds=3, confirm_env_steps=4_000)
    limit = Limit(own, StepMeter(5_000), together=True, adjusts_length=True)
    assert planned(limit, 2) == (1, pytest.approx(2_425, rel=0.002))  # 97% of 2,500
    assert planned(limit, 1)[0] == 1  # for a finalist that replaces another
    limit = Limit(own, StepMeter(13_000), together=True, adjusts_length=True, adjusts_seeds=False)
    assert planned(limit, 2) == (3, pytest.approx(2_101, rel=0.002))  # 97% of 13,000 / 6: 3 were given


def test_spare_budget_goes_to_longer_runs_before_further_seeds() -> None:
    own = spec(confirm=2, confirm_seeds=1, confirm_env_steps=4_000, horizon=6_000)
    for budget, expected in {8_100: (1, 4_000), 10_000: (1, 4_500), 14_000: (1, 6_000), 25_000: (2, 6_000)}.items():
        limit = Limit(own, StepMeter(budget), together=True, adjusts_length=True)
        assert planned(limit, 2) == (expected[0], pytest.approx(expected[1], rel=0.002))
    assert planned(Limit(own, StepMeter(25_000), together=True), 2) == (3, 4_000)  # their length was given
    no_horizon = own.model_copy(update={"horizon": None})
    assert planned(Limit(no_horizon, StepMeter(25_000), together=True, adjusts_length=True), 2) == (3, 4_000)


def test_greedy_episodes_of_shorter_runs_take_as_long_as_planned() -> None:
    own, clock = spec(confirm=2, confirm_seeds=1, confirm_env_steps=4_000, metric="greedy-return"), Clock()
    # Runs of 4,000 steps take 4 s and 10 evaluations of 0.2 s.
    speed = Speed(
        n_runs=1, start_seconds=2.0, shared_seconds=0.0, run_seconds=0.001 / (1 + RECORDING),
        evaluation_seconds=0.2 / (1 + RECORDING),
    )  # fmt: skip
    costs = Costs(speeds={"ppo": speed}, n_processes=1, n_cores=1, together=True, own_processes=False).of_study(own)
    meter = TimeMeter(10.0, costs, clock=clock)
    assert meter.confirmation(4_000, 2, 1) == pytest.approx(2 * (4 + 2))
    limit = Limit(own, meter, together=True, adjusts_length=True)
    assert planned(limit, 2) == (1, pytest.approx(1_000 * (9.7 / 2 - 2), rel=0.002))


def test_runs_that_confirm_are_not_shortened_below_those_of_the_search_nor_against_what_was_given() -> None:
    own = spec(confirm=2, confirm_seeds=3, confirm_env_steps=4_000)
    assert Limit(own, StepMeter(1_999), together=True, adjusts_length=True).plan_confirmation(range(2)) is None
    assert Limit(own, StepMeter(5_000), together=True).plan_confirmation(range(2)) is None
    confirming = Limit(own, StepMeter(5_000), together=True, adjusts_length=True)
    assert confirming.plan_confirmation(range(2), are_others_confirmed=True) is None  # whose runs have this length


def test_slow_finalists_have_a_larger_reserve() -> None:
    own, clock = spec(confirm=1, confirm_seeds=5), Clock()
    limit = Limit(own, time_meter(100.0, clock), together=True)
    assert limit.reserve == pytest.approx(5.0)
    limit.ended(0, 1_000, 10.0, Work(3.0, 1_000, 1_000))  # 3 ms a step, where 1 ms was estimated
    assert limit.reserve == pytest.approx(5.0)  # it is all that is known, to which the search corrects its speed
    limit.ended(1, 1_000, 5.0, Work(2.0, 1_000, 2_000))  # two runs together: 1 ms
    assert limit.reserve == pytest.approx(5.0 * 3 / 2)
    limit.ended(2, 500, None, Work(6.0, 1_000, 1_000))  # pruned: 6 ms
    assert limit.reserve == pytest.approx(5.0 * 3 / ((3 + 1 + 6 / 2) / 2.5))
    limit.ended(3, 500, 20.0, Work(0.5, 500, 500))  # a better and faster one
    assert limit.reserve == pytest.approx(5.0 * 1 / ((3 + 1 + 6 / 2 + 1 / 2) / 3))


def test_the_process_with_the_slowest_finalist_counts() -> None:
    own, clock = spec(confirm=3, confirm_seeds=1), Clock()
    speed = Speed(n_runs=1, start_seconds=2.0, shared_seconds=0.0, run_seconds=0.001)
    costs = Costs(
        speeds={"ppo": speed}, n_processes=2, n_cores=2, together=True, own_processes=False, n_structures=3
    )  # fmt: skip
    usual = costs.confirmation_seconds(1_000, 3, 1)  # two runs one after another in one of the processes
    assert costs.confirmation_seconds(1_000, 3, 1, [1.0, 1.0, 1.0]) == pytest.approx(usual)
    assert costs.confirmation_seconds(1_000, 3, 1, [4.0, 1.0, 1.0]) == pytest.approx(usual * 4 / 2)
    assert costs.confirmation_seconds(1_000, 3, 1, [1.0, 4.0, 3.0]) == pytest.approx(usual * 4 / 2)
    one = replace(costs, n_structures=1)  # whose seeds are divided
    assert one.confirmation_seconds(1_000, 2, 4, [3.0, 1.0]) == pytest.approx(2 * one.confirmation_seconds(1_000, 2, 4))
    # Times of two trials are known, and of three finalists one is not.
    limit = Limit(own, TimeMeter(100.0, costs, clock=clock), together=True)
    before = limit.reserve
    limit.ended(0, 1_000, 10.0, Work(3.0, 1_000, 1_000))
    limit.ended(1, 1_000, 5.0, Work(1.0, 1_000, 1_000))
    assert limit.reserve == pytest.approx(before * 1.5 / 2)  # 1.5 in one process, 0.5 + 1 in the other; 2 are usual
    limit.ended(2, 1_000, 4.0, Work(2.0, 1_000, 1_000))
    assert limit.reserve == pytest.approx(before * 3 / 2 / 2)  # 3 ms in one process, 2 + 1 in the other; 2 are usual


def test_steps_do_not_depend_on_the_speed_of_finalists() -> None:
    limit = Limit(spec(confirm=1, confirm_seeds=5), StepMeter(100_000), together=True)
    limit.ended(0, 1_000, 10.0, Work(3.0, 1_000, 1_000))
    limit.ended(1, 1_000, 5.0, Work(1.0, 1_000, 1_000))
    assert limit.reserve == 5_000


def test_a_further_round_of_confirmation_has_the_same_seeds() -> None:
    limit = Limit(spec(confirm=2, confirm_seeds=3), StepMeter(100_000), together=True)
    assert planned(limit, 2)[0] == 12
    assert planned(limit, 1)[0] == 12


def test_a_plan_grows_by_what_fits() -> None:
    limit = Limit(spec(), StepMeter(2_500), together=True)
    assert limit.n_further(4) == 2
    assert limit.n_further(1) == 1


def test_a_plan_that_grows_has_the_finalists_of_all_its_trials() -> None:
    own = spec(trials=[{"learning_rate": 0.1}, {"learning_rate": 0.01}], pruner="none", confirm=3, confirm_seeds=2)
    assert Limit(own, StepMeter(6_999), together=True).n_further(1) == 0  # a trial, and two seeds of three finalists
    assert Limit(own, StepMeter(7_000), together=True).n_further(1) == 1


def test_further_trials_of_many_structures_are_compiled() -> None:
    clock = Clock()
    speed = Speed(n_runs=1, start_seconds=2.0, shared_seconds=0.0, run_seconds=0.001 / (1 + RECORDING))
    costs = Costs(speeds={"ppo": speed}, n_processes=1, n_cores=1, together=True, own_processes=False, n_structures=20)
    # A trial of 1,000 steps takes 1 s, and 2 s of compilation.
    own = spec(pruner="none", confirm=0)
    assert Limit(own, TimeMeter(9.5, costs, clock=clock), together=True, chooses_trials=True).n_further(8) == 3
    assert Limit(own, time_meter(9.5, clock), together=True, chooses_trials=True).n_further(8) == 8


def test_text_names_the_budget_and_how_to_go_on() -> None:
    Clock()
    text = unfinished_text(spec(minutes=1.5), 3)
    assert text.startswith("3 trials were not run to the end within the budget of 1.5 minutes. To continue")
    assert "--study-name s --minutes 3 (study_name='s', minutes=3)" in text
    text = unfinished_text(spec(total_env_steps=5_200), 1)
    assert text.startswith("1 trial was not run to the end within the budget of 5,200 environment steps.")
    assert "--total-env-steps 10400" in text


def test_promoted_trials_cost_what_is_left_of_their_runs() -> None:
    own = spec(pruner="none")
    limit = Limit(own, StepMeter(1_300), together=True)
    limit.begun(0, 1)
    assert not limit.request_trial()
    limit = Limit(own, StepMeter(1_300), together=True)
    limit.begun(0, 1)
    assert limit.request_trial(counted=700)  # 1,000 + 300
    limit.begun(1, 1, 700)
    assert not limit.request_trial(counted=700)


def test_promoted_trials_are_not_pruned_at_rungs_that_they_have_passed() -> None:
    limit = Limit(spec(), StepMeter(1_500), together=True)
    for number in range(3):
        limit.begun(number, 1)
    limit.begun(3, 1, 500)
    worst = {0: {0: 3.0}, 1: {0: 2.0}, 2: {0: 1.0}, 3: {0: 0.0}}
    pruned = limit.rung(200, worst, set())
    assert 3 not in pruned
    assert 2 in pruned


def test_further_trials_have_further_finalists() -> None:
    space = {"trials": (), "params": {"learning_rate": "1e-5:1e-1:log"}}
    own = spec(pruner="none", n_trials=40, confirm=5, confirm_seeds=1, env_steps=100, **space)
    limit = Limit(own, StepMeter(10_000), together=True, chooses_trials=True, chooses_finalists=True)
    assert limit.reserve == 500
    assert limit.n_further(8) == 8
    grown = limit.grow(8)
    assert (grown.n_trials, grown.confirm, limit.reserve) == (48, 6, 600)
    assert [limit.n_finalists(n) for n in (4, 16, 20, 47, 48, 200)] == [3, 4, 5, 5, 6, 16]
    assert Limit(own, StepMeter(10_000), together=True).grow(8).confirm == 5
    assert Limit(own, StepMeter(10_000), together=True).n_finalists(8) is None
    tight = Limit(own, StepMeter(1_390), together=True, chooses_trials=True, chooses_finalists=True)
    assert tight.n_further(8) == 7, "the eighth would be one of 48, of which six are confirmed"


def test_fewer_finalists_than_suit_a_plan_grow_with_further_trials_too() -> None:
    space = {"trials": (), "params": {"learning_rate": "1e-5:1e-1:log"}}
    own = spec(pruner="none", n_trials=23, confirm=3, confirm_seeds=1, env_steps=100, **space)
    limit = Limit(own, StepMeter(100_000), together=True, chooses_trials=True, chooses_finalists=True)
    assert limit.n_finalists(23) == 3, "there was no budget for 5"
    assert [limit.n_finalists(n) for n in (4, 31, 32, 40, 48, 236)] == [3, 3, 4, 5, 6, 16]
    assert [limit.grow(n).confirm for n in (8, 8, 90)] == [3, 4, 16]
    suited = spec(pruner="none", n_trials=15, confirm=3, confirm_seeds=1, env_steps=100, **space)
    fits = Limit(suited, StepMeter(100_000), together=True, chooses_trials=True, chooses_finalists=True)
    assert [fits.n_finalists(n) for n in (15, 16, 20, 47)] == [3, 4, 5, 5]
    fewest = spec(pruner="none", n_trials=8, confirm=2, confirm_seeds=1, env_steps=100, **space)
    few = Limit(fewest, StepMeter(100_000), together=True, chooses_trials=True, chooses_finalists=True)
    assert [few.n_finalists(n) for n in (8, 23, 24, 40)] == [2, 2, 3, 5]


class TestFurtherSeeds:
    """Budget that is left when a confirmation has ended goes to more seeds."""

    def limit(self, clock: Clock, seconds: float, **fields: Any) -> Limit:
        # Two finalists of 1,000 steps: 2 s for each further seed; more of them than planned take 80% of what is left.
        return Limit(spec(confirm=2, confirm_seeds=3), time_meter(seconds, clock), together=True, **fields)

    @pytest.mark.parametrize(("took", "n_seeds"), [(8.0, 5), (4.0, 6), (9.0, None), (12.0, None)])
    def test_they_are_priced_by_the_estimate_or_by_slower_runs_before(self, took: float, n_seeds: int | None) -> None:
        clock = Clock()
        limit = self.limit(clock, 11.0)
        planned = limit.plan_confirmation([0, 1])
        assert planned is not None
        assert planned.confirm_seeds == 4, "8 s are within 80% of 11 s"
        clock.now += took
        more = limit.further_seeds([0, 1])
        assert (None if more is None else more.confirm_seeds) == n_seeds

    def test_there_are_at_most_four_times_as_many_as_planned(self) -> None:
        clock = Clock()
        limit = self.limit(clock, 1_000.0)
        planned = limit.plan_confirmation([0, 1])
        assert planned is not None
        assert planned.confirm_seeds == 12
        clock.now += 24.0
        assert limit.further_seeds([0, 1]) is None

    def test_runs_that_were_resumed_at_their_ends_say_nothing_about_costs(self) -> None:
        limit = self.limit(Clock(), 11.0)
        assert limit.plan_confirmation([0, 1], resumed=1_000) is not None
        more = limit.further_seeds([0, 1])
        assert more is not None
        assert more.confirm_seeds == 3 + 4

    def test_finalists_that_diverged_do_not_make_others_cheap(self) -> None:
        limit = Limit(spec(confirm=3, confirm_seeds=5), StepMeter(17_000), together=True)
        planned = limit.plan_confirmation([0, 1, 2])
        assert planned is not None
        assert planned.confirm_seeds == 5
        for number, env_steps in ((10, 1_000), (11, 1_000), (12, 50)):
            limit.begun(number, 5)
            limit.ended(number, env_steps)
        more = limit.further_seeds([0, 1])
        assert more is not None
        assert more.confirm_seeds == 5 + 3, "6,750 steps are left"

    def test_a_round_that_was_interrupted_keeps_its_seeds(self) -> None:
        # Two finalists have 5 of 9 seeds: 4 more cost 8 s.
        limit = Limit(spec(confirm=2, confirm_seeds=9), time_meter(8.5, Clock()), together=True)
        planned = limit.plan_confirmation([0, 1], known=5, are_others_confirmed=True)
        assert planned is not None
        assert planned.confirm_seeds == 9
        limit = Limit(spec(confirm=2, confirm_seeds=9), time_meter(5.0, Clock()), together=True)
        planned = limit.plan_confirmation([0, 1], known=5, are_others_confirmed=True)
        assert planned is not None
        assert planned.confirm_seeds == 7
        limit = Limit(spec(confirm=2, confirm_seeds=9), time_meter(1.0, Clock()), together=True)
        assert limit.plan_confirmation([0, 1], known=5, are_others_confirmed=True) is None

    def test_a_number_that_was_given_remains(self) -> None:
        clock = Clock()
        limit = self.limit(clock, 1_000.0, adjusts_seeds=False)
        assert limit.plan_confirmation([0, 1]) is not None
        assert limit.further_seeds([0, 1]) is None

    def test_a_search_that_is_complete_already_gets_none(self) -> None:
        assert self.limit(Clock(), 1_000.0).further_seeds([0, 1]) is None
