"""Schedulers that compare trials at rungs: keep-top, Hyperband, race and sequential test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from studies.adapters.pruners import make_pruner
from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.schedulers.hyperband import Hyperband
from studies.schedulers.keep_top import KeepTop
from studies.schedulers.race import Race
from studies.schedulers.scheduler import RungScheduler
from studies.schedulers.sequential_test import SequentialTest
from studies.spec.attributes import RUNG_ATTR
from studies.spec.scheduler_names import RACES
from studies.spec.spec import StudySpec

Make = Callable[..., StudySpec]


def pruning_steps(
    scheduler: RungScheduler, values: list[Any], rows: list[dict[str, Any]] | None = None, direction: str = "maximize"
) -> list[int]:
    """Return the step at which each concurrent trial is pruned, of 10, 20, 40 and 80 with equal values; 0: never."""
    study = optuna.create_study(direction=direction, pruner=SchedulerPruner(scheduler))
    for row in rows or [{}] * len(values):
        study.enqueue_trial(row)
    trials = []
    for row in rows or [{}] * len(values):
        trial = study.ask()
        for name, value in row.items():
            if isinstance(value, float):
                trial.suggest_float(name, 1e-6, 1.0, log=True)
            else:
                trial.suggest_categorical(name, ["adam", "sgd"])
        trials.append(trial)
    ends = [0] * len(values)
    for step in (10, 20, 40, 80):
        there = [i for i, end in enumerate(ends) if end == 0]
        for i in there:
            seeds = values[i] if isinstance(values[i], tuple) else (values[i],)
            trials[i].report(sum(seeds) / len(seeds), step)
            if scheduler.needs_seed_values:
                kept = {**trials[i].user_attrs.get(RUNG_ATTR, {}), str(step): dict(enumerate(seeds))}
                trials[i].set_user_attr(RUNG_ATTR, kept)
        for i in [i for i in there if trials[i].should_prune()]:
            study.tell(trials[i], state=TrialState.PRUNED)
            ends[i] = step
    return ends


def test_keep_top_prunes_all_but_the_best_at_its_step() -> None:
    assert pruning_steps(KeepTop(20, 2), [3.0, 0.0, 7.0, 6.0]) == [20, 20, 0, 0]
    assert pruning_steps(KeepTop(20, 2), [3.0, 0.0, 7.0, 6.0], direction="minimize") == [0, 0, 20, 20]


def test_hyperband_brackets_have_the_sizes_of_the_paper() -> None:
    # R = 81, r = 1, factor 3: brackets of 81, 34, 15, 8 and 5 candidates (Li et al. 2018, table 1: s = 4 ... 0).
    scheduler = Hyperband(1, 81, 3)
    sizes = Counter(scheduler.bracket_of(number) for number in range(81 + 34 + 15 + 8 + 5))
    assert [sizes[bracket] for bracket in range(5)] == [81, 34, 15, 8, 5]
    # Of eleven brackets, the third one has exactly 11 / 9 * 3^8 = 8,019 candidates.
    assert Counter(Hyperband(1, 3**10, 3)._order)[2] == 8_019


def test_hyperband_compares_within_brackets_and_spares_the_last() -> None:
    scheduler = Hyperband(10, 40, 2)  # three brackets: halving from step 10, halving from step 20, no pruning
    values = [float(number) for number in range(14)]
    ends = pruning_steps(scheduler, values)
    for bracket, first in ((0, 10), (1, 20)):
        own = [ends[number] for number in range(14) if scheduler.bracket_of(number) == bracket]
        assert min(end for end in own if end) == first
        assert sum(end == first for end in own) == len(own) // 2
    assert {ends[number] for number in range(14) if scheduler.bracket_of(number) == 2} == {0}


def test_race_keeps_the_share_of_trials_equal_to_the_remaining_budget() -> None:
    values = [float(number) for number in range(10)]
    ends = [10, 20, 40, 40, 40, 0, 0, 0, 0, 0]  # after 1/8 of the budget 9 of 10 continue, after 1/4 8, after 1/2 5
    assert pruning_steps(Race([10, 20, 40], 80), values) == ends
    turned = [-value for value in values]
    assert pruning_steps(Race([10, 20, 40], 80), turned, direction="minimize") == ends


def test_sequential_test_prunes_trials_significantly_below_the_best() -> None:
    values = [(0.0, 1.0, 2.0), (49.0, 50.0, 51.0), (48.0, 50.0, 52.0), (47.0, 50.0, 53.0)]
    scheduler = SequentialTest([10, 20], 80)
    assert pruning_steps(scheduler, values) == [10, 0, 0, 0]
    assert pruning_steps(scheduler, [tuple(-v for v in own) for own in values], direction="minimize") == [10, 0, 0, 0]


def test_race_per_optimizer_compares_trials_of_one_optimizer() -> None:
    rows = [{"optimizer": name, "learning_rate": rate} for name in ("adam", "sgd") for rate in (1e-5, 1e-4, 1e-1)]
    bad, good, best = (0.0, 1.0, 2.0), (9.0, 10.0, 11.0), (99.0, 100.0, 101.0)
    values = [bad, best, good, bad, good, bad]
    assert pruning_steps(SequentialTest([40], 80, per="optimizer"), values, rows) == [0, 0, 40, 0, 0, 40]
    assert pruning_steps(SequentialTest([40], 80), values, rows) == [
        0,
        0,
        40,
        40,
        40,
        40,
    ]  # the best trial and its next lower neighbour stay
    assert (
        pruning_steps(Race([40], 80, per="optimizer"), values, rows) == [0] * 6
    )  # at least three trials per optimizer stay
    assert pruning_steps(Race([40], 80), values, rows) == [0, 0, 0, 40, 40, 40]


def test_recorder_stores_seed_values_at_rungs_of_a_race(make_spec: Make) -> None:
    rows = tuple({"learning_rate": 10.0**-k} for k in range(1, 11))
    spec = make_spec(trials=rows, n_trials=10, params={}, seeds=(0, 1, 2), env_steps=1000, n_reports=20, pruner="race")
    study = open_study(spec)
    with Recorder(study) as recorder:
        numbers = [ask.number for _ in range(10) if (ask := recorder.ask()) is not None]
        for mark in spec.report_marks[:2]:  # 50 and 100: the first rung is a tenth
            own = {number: {seed: 100.0 * number + seed for seed in (0, 1, 2)} for number in numbers}
            behind = recorder.rung(mark, own)
        assert behind == {0}  # one tenth of the trials
        kept = study.all_trials()[1].user_attrs[RUNG_ATTR]
        assert kept == {"100": {"0": 100.0, "1": 101.0, "2": 102.0}}


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"rungs": []}, "ascending"),
        ({"rungs": [20, 10]}, "ascending"),
        ({"rungs": [0, 10]}, "ascending"),
        ({"budget": 10}, "at least the last rung"),
        ({"keep": 3}, "keep"),
    ],
)
@pytest.mark.parametrize("name", RACES)
def test_invalid_race_arguments_raise(make_spec: Make, name: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        make_pruner(name, kwargs, make_spec(env_steps=1000))


def test_invalid_level_raises(make_spec: Make) -> None:
    with pytest.raises(StudyError, match="it must be above 0 and below 1"):
        make_pruner("sequential-test", {"level": 1.0}, make_spec(env_steps=1000))
    with pytest.raises(StudyError, match="level"):
        make_pruner("race", {"level": 0.9}, make_spec(env_steps=1000))


@pytest.mark.parametrize(
    ("at", "keep", "message"),
    [(0, 3, "at is 0: give the environment steps of the rung, not a share"), (20, 0, "keep is 0: give how many")],
)
def test_arguments_of_keep_top_are_steps_and_a_count(make_spec: Make, at: float, keep: int, message: str) -> None:
    with pytest.raises(StudyError, match=f"the scheduler 'keep-top' refused .*{message}"):
        make_pruner("keep-top", {"at": at, "keep": keep}, make_spec())


STEPS = " of environment steps, not a share of the budget"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("keep-top", {"at": 0.3}, f"has 0.3 as at: give a whole number{STEPS}"),
        ("median", {"n_warmup_steps": 0.5}, f"has 0.5 as n_warmup_steps: give a whole number{STEPS}"),
        ("hyperband", {"min_resource": 10.5}, f"has 10.5 as min_resource: give a whole number{STEPS}"),
        ("asha", {"min_resource": 0.1}, f"has 0.1 as min_resource: give a whole number{STEPS}"),
        ("keep-top", {"keep": 1.5}, r"has 1.5 as keep: give a whole number\."),
        ("patient", {"patience": 2.5}, r"has 2.5 as patience: give a whole number\."),
        ("percentile", {"n_startup_trials": 2.5}, "has 2.5 as n_startup_trials: give a whole number"),
    ],
)
def test_steps_and_counts_of_pruners_are_whole(
    make_spec: Make, name: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=f"the scheduler '{name}' {message}"):
        make_pruner(name, arguments, make_spec(env_steps=1000))


@pytest.mark.parametrize(
    ("name", "arguments", "attribute"),
    [("keep-top", {"at": 2e2}, "_at"), ("patient", {"patience": 2.0}, "_patience")],
)
def test_whole_numbers_of_pruners_may_be_written_as_floats(
    make_spec: Make, name: str, arguments: dict[str, Any], attribute: str
) -> None:
    pruner = make_pruner(name, arguments, make_spec(env_steps=1000))
    number = getattr(getattr(pruner, "scheduler", pruner), attribute)
    assert (number, type(number)) == (int(number), int)


@pytest.mark.parametrize("name", ["race", "sequential-test", "keep-top", "hyperband", "successive-halving"])
def test_rung_pruners_require_a_budget_in_steps(make_spec: Make, name: str) -> None:
    with pytest.raises(StudyError, match="give the budget as env_steps"):
        make_pruner(name, {}, make_spec(env_steps=None, episodes=50))


def test_only_trials_that_reported_at_the_rung_are_compared() -> None:
    study = optuna.create_study(direction="maximize", pruner=SchedulerPruner(KeepTop(20, 1)))
    old = study.ask()
    old.report(100.0, 20)
    study.tell(old, state=TrialState.FAIL)  # a failed trial may be retried, so it does not count as a competitor
    trial = study.ask()
    trial.report(1.0, 20)
    assert not trial.should_prune()
    study = optuna.create_study(direction="maximize", pruner=SchedulerPruner(Race([10, 40], 80)))
    late = study.ask()
    late.report(100.0, 50)  # its first report is past the rung at 10
    trials = [study.ask() for _ in range(2)]
    for trial in trials:
        trial.set_user_attr(RUNG_ATTR, {"10": {"0": 1.0, "1": 1.1}})
        trial.report(1.05, 10)
    assert not any(trial.should_prune() for trial in trials)


@pytest.mark.parametrize("name", RACES)
def test_race_per_unsearched_parameter_raises(make_spec: Make, name: str) -> None:
    with pytest.raises(StudyError, match="race per 'optimiser'"):
        make_pruner(name, {"per": "optimiser"}, make_spec(env_steps=1000))
    with pytest.raises(StudyError, match="cannot wrap a race"):
        make_pruner("patient", {"wrapped": name}, make_spec(env_steps=1000))
