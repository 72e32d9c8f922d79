"""Schedulers decide from the given trials alone: decisions worked out by hand, without Optuna."""

from __future__ import annotations

from typing import Any

import optuna
import pytest

from studies.adapters.scheduler_pruner import SchedulerPruner, view_of
from studies.schedulers.halving import Halving
from studies.schedulers.hyperband import Hyperband
from studies.schedulers.keep_top import KeepTop
from studies.schedulers.percentile import Percentile
from studies.schedulers.race import Race
from studies.schedulers.scheduler import RungScheduler, Scheduler
from studies.schedulers.schedulers import SCHEDULERS, make_scheduler
from studies.schedulers.sequential_test import SequentialTest
from studies.schedulers.trial_view import TrialView, ViewState
from studies.spec.attributes import DIVERGED_ATTR, RUNG_ATTR


def trial(number: int, values: dict[int, Any], state: ViewState = "running", **params: Any) -> TrialView:
    seeds = {step: own if isinstance(own, tuple) else (own,) for step, own in values.items()}
    return TrialView(number=number, params=params, state=state, values=seeds)


def stopped(scheduler: Scheduler, trials: list[TrialView]) -> set[int]:
    """Return the running trials that are due and stopped, or paused."""
    due = [each for each in trials if each.state == "running" and scheduler.is_due(each)]
    return {each.number for each in due if not scheduler.decide(each, trials).continues}


def test_halving_continues_the_best_half_of_a_rung():
    trials = [trial(number, {10: float(value)}) for number, value in enumerate((3, 0, 7, 1))]
    assert stopped(Halving(10, 2), trials) == {1, 3}
    assert stopped(Halving(20, 2), trials) == set()  # no rung yet


def test_halving_counts_trials_that_diverged_as_the_worst():
    """Of nine trials, three continue with a factor of 3, and one of these; failures of other kinds do not count."""
    diverged = [trial(number, {5: 1.0} if number else {}, "diverged") for number in range(3)]
    first = [trial(number, {10: float(number)}) for number in range(3, 9)]
    failed = [trial(number, {}, "failed") for number in range(9, 12)]
    assert stopped(Halving(10, 3), diverged + first + failed) == {3, 4, 5}
    assert stopped(Halving(10, 3), first + failed) == {3, 4, 5, 6}, "two of six"
    left = [trial(number, {10: float(number)}, "pruned") for number in (3, 4, 5)]
    second = [trial(number, {10: 1.0, 30: float(number)}) for number in (6, 7, 8)]
    assert stopped(Halving(10, 3), diverged + left + second) == {6, 7}, "one of three"
    lost = trial(6, {10: 9.0}, "diverged")  # between the rungs
    assert stopped(Halving(10, 3), [*diverged, *left, lost, *second[1:]]) == {7}
    late = trial(12, {10: 0.5})  # of five at the rung, with trial 6, and three that diverged before: three of eight
    assert stopped(Halving(10, 3), [*diverged, *left, lost, late]) == {12}
    assert stopped(Halving(10, 3), [*diverged, lost, late]) == set(), "the only one that did not diverge"


def test_hyperband_counts_trials_that_diverged_in_their_bracket():
    scheduler = Hyperband(10, 90, 3)  # brackets from 10 on, from 30 on, and without rungs
    numbers = [[number for number in range(60) if scheduler.bracket_of(number) == bracket] for bracket in range(3)]
    for bracket, rung in ((0, 10), (1, 30)):
        own = numbers[bracket][:9]
        lost = [trial(number, {10: 1.0} if bracket else {}, "diverged") for number in own[:3]]
        running = [trial(number, {rung: float(number)}) for number in own[3:]]
        others = [trial(number, {}, "diverged") for number in (*numbers[1 - bracket][:9], *numbers[2][:9])]
        assert stopped(scheduler, lost + running + others) == set(own[3:6]), "three of nine continue"


def test_trials_that_ended_at_a_rung_are_compared_and_failed_ones_are_not():
    scheduler = KeepTop(10, 1)
    own = trial(1, {10: 5.0})
    assert stopped(scheduler, [trial(0, {10: 9.0}, "pruned"), own]) == {1}
    assert stopped(scheduler, [trial(0, {10: 9.0, 20: 9.0}, "complete"), own]) == {1}
    assert stopped(scheduler, [trial(0, {10: 9.0}, "waiting"), own]) == {1}
    assert stopped(scheduler, [trial(0, {10: 9.0}, "failed"), trial(2, {10: 9.0}, "diverged"), own]) == set()


def test_trial_is_judged_once_at_a_rung():
    scheduler = KeepTop(10, 1)
    assert scheduler.is_due(trial(0, {5: 1.0, 12: 1.0}))
    assert not scheduler.is_due(trial(0, {12: 1.0, 15: 1.0}))
    assert not scheduler.is_due(trial(0, {}))


def test_trial_without_a_number_stops():
    assert stopped(KeepTop(10, 3), [trial(0, {10: (1.0, float("nan"))}), trial(1, {10: 0.0})]) == {0}


def test_race_counts_removed_and_diverged_trials():
    # After half of the budget the best half of all that began continues: 5 of 10. Two were pruned and one diverged
    # before, so two of the seven that are here stop.
    gone = [trial(0, {10: 0.0}, "pruned"), trial(1, {10: 0.0}, "pruned"), trial(2, {}, "diverged")]
    here = [trial(number, {10: 1.0, 50: float(number)}) for number in range(3, 10)]
    assert stopped(Race([10, 50], 100), [*gone, *here]) == {3, 4}
    assert stopped(Race([10, 50], 100), here) == {3, 4, 5}  # 4 of 7
    failed = [trial(number, {}, "failed") for number in range(3)]
    assert stopped(Race([10, 50], 100), [*failed, *here]) == {3, 4, 5}


def test_race_per_optimizer_is_a_race_of_each():
    good, bad = ("adam", 10.0), ("sgd", 0.0)
    trials = [
        trial(10 * k + i, {50: (level + i, level + i)}, optimizer=name)
        for k, (name, level) in enumerate((good, bad))
        for i in range(8)
    ]
    assert stopped(Race([50], 100, per="optimizer"), trials) == {0, 1, 2, 3, 10, 11, 12, 13}
    assert stopped(Race([50], 100), trials) == set(range(10, 18))


def test_sequential_test_stops_what_seeds_distinguish():
    trials = [trial(i, {10: (worth - 1, worth, worth + 1)}) for i, worth in enumerate((0.0, 50.0, 50.5))]
    assert stopped(SequentialTest([10], 100), trials) == {0}


def test_median_is_that_of_all_trials_that_came_as_far():
    others = [trial(0, {10: 0.0, 30: 20.0}, "complete"), trial(1, {10: 4.0}, "pruned"), trial(2, {20: 9.0})]
    # At 20 the others are worth 10, 4 and 9: the median is 9.
    assert stopped(Percentile(n_startup_trials=3, n_warmup_steps=20), [*others, trial(3, {20: 8.9})]) == {3}
    assert stopped(Percentile(n_startup_trials=3, n_warmup_steps=20), [*others, trial(3, {20: 9.1})]) == {2}
    assert stopped(Percentile(n_startup_trials=4, n_warmup_steps=20), [*others, trial(3, {20: 8.9})]) == set()


def test_diverged_trials_are_behind_every_percentile():
    scheduler = Percentile(n_startup_trials=2, n_warmup_steps=20)
    sound = [trial(0, {10: 0.0, 30: 20.0}, "complete"), trial(1, {20: 9.0}, "pruned")]
    diverged = [trial(2, {10: 50.0}, "diverged"), trial(3, {}, "diverged")]
    assert stopped(scheduler, [*sound, trial(4, {20: 8.9})]) == {4}, "the median of 9 and 10"
    assert stopped(scheduler, [*sound, *diverged, trial(4, {20: 8.9})]) == set(), "the better half of five"
    assert stopped(scheduler, [*sound, diverged[0], trial(4, {20: 8.9})]) == {4}, "9 is in the middle"
    assert stopped(scheduler, [*sound, trial(2, {30: 50.0}, "diverged"), trial(4, {20: 8.9})]) == {4}, "it came as far"
    assert stopped(scheduler, [*sound, *(trial(n, {}, "failed") for n in (2, 3)), trial(4, {20: 8.9})]) == {4}
    assert stopped(scheduler, [*diverged, trial(4, {20: 8.9})]) == set()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_decisions_do_not_depend_on_what_was_asked_before(name: str):
    """A process that resumes a study decides as the one that was killed."""
    marks = list(range(50, 1050, 50))

    def make() -> Scheduler:
        return make_scheduler(name, {}, marks, (), name)

    asked, trials = make(), [trial(number, {}) for number in range(12)]
    decisions = set()
    for step in marks[:-1]:
        trials = [
            trial(each.number, {**each.values, step: (float(each.number * 7 % 12),) * 3}, each.state)
            if each.state == "running"
            else each
            for each in trials
        ]
        out = stopped(asked, trials)
        assert out == stopped(make(), trials) == stopped(make(), trials[::-1])
        trials = [trial(t.number, dict(t.values), "pruned") if t.number in out else t for t in trials]
        decisions |= out
    assert decisions or name == "sequential-test"  # one value, three times, says nothing about its spread


def test_rung_of_hyperband_is_that_of_the_first_bracket():
    scheduler = Hyperband(10, 40, 2)
    assert [scheduler.rung_of(step) for step in (9, 10, 19, 20, 79, 80)] == [None, 10, 10, 20, 40, 80]
    assert isinstance(scheduler, RungScheduler)


def test_hyperband_does_not_halve_at_its_highest_rung():
    """In the paper, that rung is the end of a run; here it may lie shortly before."""
    scheduler = Hyperband(7, 100, 3)
    own = [number for number in range(40) if scheduler.bracket_of(number) == 0][:6]
    assert len(stopped(scheduler, [trial(number, {21: float(number)}) for number in own])) == 4
    assert stopped(scheduler, [trial(number, {63: float(number)}) for number in own]) == set()


def test_view_of_a_trial_has_the_values_of_seeds_where_they_are_stored():
    study = optuna.create_study(direction="minimize")
    asked = study.ask()
    asked.suggest_float("x", 0.0, 1.0)
    asked.report(1.5, 10)
    asked.report(3.0, 20)
    asked.set_user_attr(RUNG_ATTR, {"20": {"0": 2.0, "1": 4.0}})
    asked.set_user_attr(DIVERGED_ATTR, True)
    study.tell(asked, state=optuna.trial.TrialState.FAIL)
    [frozen] = study.trials
    view = view_of(frozen, -1.0)
    assert view.values == {10: (-1.5,), 20: (-2.0, -4.0)}
    assert (view.number, view.state, view.counts, view.last_step) == (0, "diverged", False, 20)
    assert view.params == frozen.params


def test_pruner_sees_parameters_that_were_set_after_its_last_question():
    study = optuna.create_study(direction="maximize", pruner=SchedulerPruner(Race([10], 20, per="optimizer")))
    names = ["a", "b", "c", "d", "same", "same", "same", "same"]
    for name in names:
        study.enqueue_trial({"optimizer": name})
    trials = [study.ask() for _ in names]
    trials[0].report(1.0, 10)
    assert not trials[0].should_prune()
    for number, each in enumerate(trials):
        each.suggest_categorical("optimizer", ["a", "b", "c", "d", "same"])
        if number:
            each.report(float(number), 10)
    assert [each.number for each in trials if each.should_prune()] == [4]  # one of four; the others race alone
