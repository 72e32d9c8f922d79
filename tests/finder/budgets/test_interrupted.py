"""Tests of the limit of a search whose interrupted trials continue: what they have trained costs nothing any more."""

from __future__ import annotations

import pytest
from limits import Clock, spec, time_meter

from finder.budgets.limit import Limit
from finder.budgets.meters import StepMeter


def n_begun(limit: Limit, resumed: int) -> int:
    """Begin up to four trials, and return how many fitted."""
    for number in range(4):
        if not limit.request_trial(resumed=resumed):
            return number
        limit.begun(number, 1, resumed=resumed)
    return 4


@pytest.mark.parametrize(("seconds", "n"), [(4.05, 4), (3.95, 3), (3.45, 2), (2.45, 0)])
def test_trials_that_continue_are_priced_from_their_last_report(seconds: float, n: int) -> None:
    # 2 s of compilation, and 0.5 s from step 500 to 1,000 for each.
    limit = Limit(spec(pruner="none"), time_meter(seconds, Clock()), together=True)
    assert n_begun(limit, resumed=500) == n


@pytest.mark.parametrize(("seconds", "n"), [(2.55, 4), (2.45, 0)])
def test_all_trials_continue_where_the_worst_can_be_pruned_at_a_rung(seconds: float, n: int) -> None:
    own = spec(confirm=2, confirm_seeds=3)  # for which 6 s would be reserved
    assert n_begun(Limit(own, time_meter(seconds, Clock()), together=True), resumed=500) == n


def test_steps_of_trials_that_continue_are_counted_when_they_end() -> None:
    assert n_begun(Limit(spec(), StepMeter(4_000), together=True), resumed=500) == 4
    assert n_begun(Limit(spec(), StepMeter(1_700), together=True), resumed=500) == 1


def test_reports_before_the_checkpoint_say_nothing_about_the_speed() -> None:
    clock = Clock()
    meter = time_meter(60.0, clock)
    limit = Limit(spec(), meter, together=True)
    assert n_begun(limit, resumed=500) == 4
    values = {number: {0: float(number)} for number in range(4)}
    for mark in (100, 200, 300, 400, 500):  # at once, from the checkpoint
        assert limit.rung(mark, values, set()) == set()
    clock.now += 5.0
    limit.rung(700, values, set())  # contains the compilation
    assert meter.correction == 1.0
    clock.now += 0.8
    limit.rung(800, values, set())  # 4 trials of 100 steps were expected to take 0.4 s
    assert meter.correction == pytest.approx((2.0 + 0.8) / (2.0 + 0.4))


@pytest.mark.parametrize(("resumed", "n_seeds"), [(0, 1), (600, 2), (700, 3), (900, 3)])
def test_confirmation_keeps_the_further_seeds_that_can_be_trained_to_the_end(resumed: int, n_seeds: int) -> None:
    # Two finalists on three seeds: 6 s from the beginning, 1.8 s from step 700 on.
    limit = Limit(spec(confirm=2, confirm_seeds=3), time_meter(2.0, Clock()), together=True)
    planned = limit.plan_confirmation([3, 4], resumed=resumed)
    assert planned is not None
    assert planned.confirm_seeds == n_seeds


def test_confirmation_in_steps_counts_its_runs_whole() -> None:
    limit = Limit(spec(confirm=2, confirm_seeds=3), StepMeter(2_000), together=True)
    planned = limit.plan_confirmation([3, 4], resumed=900)
    assert planned is not None
    assert planned.confirm_seeds == 1


@pytest.mark.parametrize(("seconds", "fits"), [(1.15, True), (1.05, False)])
def test_trial_that_continues_after_a_pause_is_no_longer_an_interrupted_one(seconds: float, fits: bool) -> None:
    # 1 s for the new trial, and 0.1 s from step 900 to 1,000 for the promoted one.
    limit = Limit(spec(pruner="none"), time_meter(seconds, Clock()), together=True)
    limit.begun(0, 1, resumed=800)
    limit.ended(0, 900)  # paused
    limit.begun(0, 1, counted=900)
    assert limit.request_trial() is fits
