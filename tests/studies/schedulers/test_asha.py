"""ASHA against sequences of jobs worked out by hand, and against the algorithm of the paper written out naively."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import optuna
import pytest

from studies import StudyError, StudySpec
from studies.adapters.pruners import make_pruner
from studies.adapters.scheduler_pruner import SchedulerPruner, pausing_pruner, view_of
from studies.schedulers.asha import ASHA
from studies.schedulers.scheduler import Action
from studies.schedulers.schedulers import make_scheduler
from studies.schedulers.trial_view import TrialView, ViewState
from studies.spec.attributes import PAUSED_ATTR, PROMOTED_ATTR

Jobs = list[tuple[int, int]]
"""Number of a trial and the environment steps up to which it is trained, job after job."""


def trial(number: int, values: dict[int, float], state: ViewState = "running", **fields: Any) -> TrialView:
    seeds = {step: (value,) for step, value in values.items()}
    return TrialView(number=number, params={}, state=state, values=seeds, **fields)


def jobs_of_scheduler(scheduler: ASHA, rungs: Sequence[int], values: np.ndarray) -> tuple[Jobs, list[TrialView]]:
    """Return the jobs of one worker that asks a scheduler as a search does; `values` are [trial, rung]."""
    views: list[TrialView] = []
    jobs: Jobs = []
    while True:
        if numbers := scheduler.promotable(views):
            number = numbers[0]
        elif len(views) < len(values):
            number = len(views)
            views.append(trial(number, {}))
        elif numbers := scheduler.promotable(views, is_last=True):
            number = numbers[0]
        else:
            return jobs, views
        if views[number].state == "paused":
            views[number] = replace(views[number], state="running", promoted_from=views[number].last_step)
        for position, step in enumerate(rungs):
            if (views[number].last_step or 0) >= step:
                continue
            jobs.append((number, step))
            known = {**views[number].values, step: (float(values[number, position]),)}
            views[number] = replace(views[number], values=known)
            action = scheduler.decisions([views[number]], views).get(number, Action.CONTINUE)
            if action == Action.PAUSE:
                views[number] = replace(views[number], state="paused")
                break
            assert action == (Action.PROMOTE if step < rungs[-1] else Action.CONTINUE)
            if action == Action.PROMOTE:
                views[number] = replace(views[number], promoted_from=step)
        else:
            views[number] = replace(views[number], state="complete")


def jobs_of_paper(eta: int, rungs: Sequence[int], values: np.ndarray) -> Jobs:
    """Return the jobs of algorithm 2 of the paper for one worker, and then those with the shares rounded up."""
    at_rung: list[list[int]] = [[] for _ in rungs]
    promoted: list[set[int]] = [set() for _ in rungs]
    jobs: Jobs = []

    def get_job(is_last: bool) -> tuple[int, int] | None:
        for rung in range(len(rungs) - 2, -1, -1):
            n = len(at_rung[rung])
            top = sorted(at_rung[rung], key=lambda number: (-values[number, rung], number))
            top = top[: -(-n // eta) if is_last else n // eta]
            candidates = [number for number in top if number not in promoted[rung]]
            if candidates:
                promoted[rung].add(candidates[0])
                return candidates[0], rung + 1
        return None

    n_begun = 0
    while True:
        job = get_job(is_last=False)
        if job is None and n_begun < len(values):
            job, n_begun = (n_begun, 0), n_begun + 1
        job = job or get_job(is_last=True)
        if job is None:
            return jobs
        number, rung = job
        jobs.append((number, rungs[rung]))
        at_rung[rung].append(number)


def test_jobs_by_hand_with_factor_3() -> None:
    values = np.array([5.0, 1.0, 7.0, 3.0, 9.0, 2.0, 6.0, 4.0, 8.0])[:, None].repeat(3, axis=1)
    expected = [
        (0, 1), (1, 1),
        (2, 1), (2, 3),  # the best of three
        (3, 1),
        (4, 1), (4, 3),  # the best of five
        (5, 1), (6, 1), (7, 1),
        (8, 1), (8, 3),  # among the best three of nine, and then not the best of three
        (4, 9),  # the best of three at the second rung now
    ]  # fmt: skip
    jobs, views = jobs_of_scheduler(ASHA(1, 9, 3), (1, 3, 9), values)
    assert jobs == expected
    assert jobs_of_paper(3, (1, 3, 9), values) == expected
    assert [view.number for view in views if view.state == "complete"] == [4]


def test_jobs_by_hand_with_factor_4() -> None:
    values = np.array([9.0, 1.0, 2.0, 3.0, 8.0, 7.0, 6.0, 5.0])[:, None].repeat(2, axis=1)
    expected = [
        (0, 1), (1, 1), (2, 1), (3, 1),
        (0, 4),  # paused first, and the best of four when the others have come
        (4, 1), (5, 1), (6, 1), (7, 1),
        (4, 4),  # the second of eight
    ]  # fmt: skip
    jobs, _ = jobs_of_scheduler(ASHA(1, 4, 4), (1, 4), values)
    assert jobs == expected


def test_too_few_trials_still_have_a_complete_one() -> None:
    values = np.array([1.0, 3.0, 2.0])[:, None].repeat(3, axis=1)
    jobs, _ = jobs_of_scheduler(ASHA(1, 16, 4), (1, 4, 16), values)
    assert jobs == [(0, 1), (1, 1), (2, 1), (1, 4), (1, 16)]


@pytest.mark.parametrize("eta", [2, 3, 4])
@pytest.mark.parametrize("seed", range(10))
def test_jobs_are_those_of_the_paper(eta: int, seed: int) -> None:
    rungs = [eta**k for k in range(4)]
    values = np.random.default_rng(seed).normal(size=(20, 4))
    jobs, _ = jobs_of_scheduler(ASHA(1, rungs[-1], eta), rungs, values)
    assert jobs == jobs_of_paper(eta, rungs, values)


def test_trials_that_diverged_count_as_the_worst_of_their_rungs() -> None:
    asha, paused = ASHA(10, 90, 3), [trial(number, {10: float(number)}, "paused") for number in range(6)]
    lost = [trial(number, {}, "diverged") for number in (6, 7, 8)]
    assert asha.promotable(paused) == [5, 4], "two of six"
    assert asha.promotable(paused + lost) == [5, 4, 3], "three of nine"
    assert asha.promotable([*paused, *lost, trial(9, {}, "failed")]) == [5, 4, 3]
    own = trial(9, {10: 3.5})
    assert asha.decisions([own], [*paused, *lost, own]) == {9: Action.PROMOTE}, "three of ten"
    assert asha.decisions([own], [*paused, own]) == {9: Action.PAUSE}, "two of seven"
    behind = [trial(number, {10: 9.0}, "diverged", promoted_from=10) for number in (10, 11)]
    second = trial(12, {10: 9.0, 30: 1.0}, "paused", promoted_from=10)
    assert asha.promotable([second, *behind]) == [12], "one of three at the second rung"
    assert asha.promotable([second, *behind[:1], *lost]) == [], "none of two: the others diverged before the first rung"


def test_trials_of_a_batch_are_promoted_together() -> None:
    trials = [trial(number, {10: float(value)}) for number, value in enumerate((3, 0, 7, 1))]
    decided = ASHA(10, 40, 2).decisions(trials, trials)
    assert decided == {0: Action.PROMOTE, 1: Action.PAUSE, 2: Action.PROMOTE, 3: Action.PAUSE}


def test_promoted_trial_passes_its_rung_again() -> None:
    better = [trial(number, {10: 9.0}, "paused") for number in (1, 2, 3)]
    resumed = trial(0, {10: 0.0}, promoted_from=10)
    assert ASHA(10, 40, 2).decisions([resumed], [resumed, *better]) == {0: Action.CONTINUE}
    again = trial(0, {10: 0.0, 20: 0.0}, promoted_from=10)
    assert ASHA(10, 40, 2).decisions([again], [again, *better]) == {0: Action.PAUSE}


def test_failed_trials_do_not_count_and_interrupted_ones_are_not_promoted() -> None:
    paused = [trial(0, {10: 1.0}, "paused"), trial(1, {10: 2.0}, "paused")]
    assert ASHA(10, 40, 2).promotable(paused) == [1]
    assert ASHA(10, 40, 2).promotable([*paused, trial(2, {10: 3.0}, "failed")]) == [1]
    assert ASHA(10, 40, 2).promotable([*paused, trial(2, {10: 3.0}, "waiting")]) == []  # the best one waits


def test_trials_that_paused_before_a_first_rung_that_is_higher_now_go_on_to_it() -> None:
    early = [trial(0, {10: 1.0}, "paused"), trial(1, {10: 2.0}, "paused")]
    assert ASHA(20, 40, 2).promotable(early) == [0, 1]
    assert ASHA(20, 40, 2).promotable([*early, trial(2, {10: 0.0, 20: 0.0}, "paused")], is_last=True) == [2, 0, 1]


def test_last_report_of_a_run_is_not_a_rung() -> None:
    assert not ASHA(10, 40, 2).is_due(trial(0, {10: 1.0, 20: 1.0, 40: 1.0}, promoted_from=20))
    assert ASHA(10, 40, 2).rung_of(40) == 20


def test_equal_values_are_promoted_together_and_in_order() -> None:
    """Trials of one seed are equal until the first update; a choice among them would be arbitrary."""
    equal = [trial(number, {10: 1.0}, "paused") for number in range(5)]
    assert ASHA(10, 40, 2).promotable(equal) == [0, 1, 2, 3, 4]
    assert ASHA(10, 40, 8).promotable(equal) == []
    assert ASHA(10, 40, 8).promotable(equal, is_last=True) == [0, 1, 2, 3, 4]
    better, worse = trial(5, {10: 2.0}, "paused"), trial(6, {10: 0.0}, "paused")
    assert ASHA(10, 40, 2).promotable([*equal, better, worse]) == [5, 0, 1, 2, 3, 4]
    assert ASHA(10, 40, 4).promotable([*equal, better, worse]) == [5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 4), "min_resource is 0: it must be at least 1"),
        ((1, 10, 1), "reduction_factor is 1: it must be at least 2"),
        ((10, 10, 4), "min_resource is 10: the first rung must lie before the end of a run, at 10 environment steps"),
    ],
)
def test_bad_arguments(arguments: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ASHA(*arguments)


def test_defaults_scale_with_the_budget_and_errors_name_the_pruner() -> None:
    scheduler = make_scheduler("asha", {}, (500, 1000, 16000), (), "the scheduler 'asha'")
    assert isinstance(scheduler, ASHA)
    assert [scheduler.rung_of(step) for step in (999, 1000, 3999, 4000, 16000)] == [None, 1000, 1000, 4000, 4000]
    with pytest.raises(StudyError, match=r"the scheduler 'asha' refused .*reduction_factor is 1"):
        make_scheduler("asha", {"reduction_factor": 1}, (500, 1000), (), "the scheduler 'asha'")
    with pytest.raises(StudyError, match="min_resource is 2000: the first rung must lie before the end of a run"):
        make_scheduler("asha", {"min_resource": 2000}, (500, 1000), (), "the scheduler 'asha'")
    with pytest.raises(StudyError, match="needs rungs in environment steps: give the budget as env_steps"):
        make_scheduler("asha", {"min_resource": 5}, (), (), "the scheduler 'asha'")
    with pytest.raises(StudyError, match="has no argument 'eta'"):
        make_scheduler("asha", {"eta": 3}, (500, 1000), (), "the scheduler 'asha'")


def test_patient_cannot_wrap_it() -> None:
    spec = StudySpec(name="s", storage="memory", agents=("ppo",), env="CartPole-v1", env_steps=1000, n_trials=2)
    with pytest.raises(StudyError, match="cannot wrap 'asha', which pauses trials"):
        make_pruner("patient", {"wrapped": "asha"}, spec)
    with pytest.raises(StudyError, match="cannot wrap 'pbt', which prunes nothing"):
        make_pruner("patient", {"wrapped": "pbt"}, spec)


def test_in_a_plain_optuna_study_it_prunes_where_it_would_pause() -> None:
    study = optuna.create_study(direction="minimize", pruner=SchedulerPruner(ASHA(10, 40, 2)))
    assert pausing_pruner(study) is study.pruner
    trials = [study.ask() for _ in range(4)]
    pruned = []
    for trial_, value in zip(trials, (1.0, 2.0, 0.5, 3.0), strict=True):
        trial_.report(value, 10)
        pruned.append(trial_.should_prune())
    assert pruned == [False, True, False, True]  # the first one is the best so far


def test_view_of_a_paused_trial() -> None:
    template: dict[str, Any] = {"params": {}, "distributions": {}, "intermediate_values": {10: 1.0}}
    study = optuna.create_study()
    study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING, **template))
    number = study._storage.get_trial_id_from_study_id_trial_number(study._study_id, 0)
    study._storage.set_trial_user_attr(number, PAUSED_ATTR, 10)
    study._storage.set_trial_state_values(number, optuna.trial.TrialState.WAITING)
    assert view_of(study.trials[0], 1.0).state == "paused"
    study._storage.set_trial_user_attr(number, PROMOTED_ATTR, 10)
    promoted = view_of(study.trials[0], 1.0)
    assert (promoted.state, promoted.promoted_from) == ("waiting", 10)
