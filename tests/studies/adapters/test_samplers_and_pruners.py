"""Samplers and pruners by name: their arguments, missing packages, and the decisions of each pruner."""

from __future__ import annotations

import importlib.util
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial
from sampler_packages import runnable, skip_without_package

from studies.adapters.pruners import make_pruner
from studies.adapters.samplers import _PACKAGES, make_sampler
from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.errors import StudyError
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.schedulers.halving import Halving
from studies.schedulers.percentile import Percentile
from studies.spec.attributes import HELD_ATTR
from studies.spec.scheduler_names import PRUNERS, SAMPLERS
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import SPEC_ATTR
from studies.storage.storage import StudyStorage
from studies.study.study import load_study

Make = Callable[..., StudySpec]


@pytest.mark.parametrize("name", runnable(SAMPLERS))
def test_every_sampler_proposes_distinct_values_in_range(name: str, make_spec: Make) -> None:
    skip_without_package(name)
    sampler = make_sampler(name, {}, 0, make_spec())
    study = optuna.create_study(sampler=sampler)
    space = {"x": optuna.distributions.FloatDistribution(0, 1), "y": optuna.distributions.FloatDistribution(0, 1)}
    for _ in range(20):
        trial = study.ask(space)
        study.tell(trial, trial.params["x"])
    drawn = [trial.params["x"] for trial in study.trials]
    assert len(set(drawn)) == 20
    assert all(0 <= x <= 1 for x in drawn)


@pytest.mark.parametrize("name", runnable(["cmaes", "gp"]))
def test_sampler_with_extra_package_learns_from_values(name: str, make_spec: Make) -> None:
    """Proposals depend on the values: with the objective negated, the sampler converges to the other end."""
    skip_without_package(name)
    ends = []
    for sign in (1, -1):
        study = optuna.create_study(sampler=make_sampler(name, {}, 0, make_spec()))
        space = {"x": optuna.distributions.FloatDistribution(0, 1), "y": optuna.distributions.FloatDistribution(0, 1)}
        for _ in range(40):
            trial = study.ask(space)
            study.tell(trial, sign * (trial.params["x"] + trial.params["y"]))
        ends.append(np.mean([trial.params["x"] + trial.params["y"] for trial in study.trials[-10:]]))
    assert ends[0] < 0.5
    assert ends[1] > 1.5


@pytest.mark.parametrize(
    ("name", "package"), [("cmaes", "cmaes"), ("CmaEsSampler", "cmaes"), ("gp", "torch"), ("GPSampler", "torch")]
)
def test_sampler_with_missing_package_says_how_to_install_it(
    name: str, package: str, make_spec: Make, storage: StudyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked, *_: None if asked == package else there(asked))
    message = (
        rf"the sampler '{name}' needs the package '{package}', which is not installed: "
        rf"pip install {package}\."
    )
    with pytest.raises(StudyError, match=message):
        make_sampler(name, {}, 0, make_spec())
    with pytest.raises(StudyError, match=message):
        open_study(make_spec(sampler=name), storage)
    assert storage.optuna.get_all_studies() == [], "a refused study must not be created"


def test_samplers_extra_lists_all_sampler_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = [requirement.partition(">")[0] for requirement in project["optional-dependencies"]["samplers"]]
    assert set(named) == set(_PACKAGES.values())


@pytest.mark.parametrize("name", ["TPESampler", "tpesampler", "TPE", "Tpe-Sampler"])
def test_optuna_class_names_of_samplers_are_accepted(name: str, make_spec: Make) -> None:
    assert isinstance(make_sampler(name, {"n_startup_trials": 2}, 0, make_spec()), optuna.samplers.TPESampler)
    assert make_spec(sampler=name).sampler == name


def test_sequences_leave_no_parameter_at_one_value(storage: StudyStorage, make_spec: Make) -> None:
    """Parameters that the first trial lacks are not part of a low-discrepancy sequence."""
    params = {
        "learning_rate": "1e-5:1e-1:log", "optimizer": "adam,sgd", "optimizer.momentum": "0:0.99@optimizer=sgd"
    }  # fmt: skip
    spec = make_spec(params=params, sampler="qmc", n_trials=12, first=[{"optimizer": "adam"}])
    with Recorder(open_study(spec, storage)) as recorder:
        seen = []
        while (ask := recorder.ask()) is not None:
            seen.append(ask.params)
            recorder.completed(ask.number, 1.0)
    momenta = [row["optimizer.momentum"] for row in seen if row["optimizer"] == "sgd"]
    assert len(set(momenta)) == len(momenta) >= 4
    assert len({row["learning_rate"] for row in seen}) == 12


def test_invalid_sampler_arguments_raise(make_spec: Make) -> None:
    with pytest.raises(StudyError, match="'n_startup_trials'"):
        make_sampler("tpe", {"n_startup": 3}, 0, make_spec())
    with pytest.raises(StudyError, match="from the study"):
        make_sampler("tpe", {"seed": 3}, 0, make_spec())
    with pytest.raises(StudyError, match="refused"):
        make_sampler("nsgaii", {"population_size": 1}, 0, make_spec())


NEVER = [None, None, None]
PRUNED_AT = {
    "none": NEVER,
    "nop": NEVER,
    "pbt": NEVER,
    "pb2": NEVER,
    "NopPruner": NEVER,
    "race": [200, 200, 300],
    "sequential-test": NEVER,  # needs several seeds: see test_sequential_test.py
    "median": [500] * 3,  # at half of the budget
    "MedianPruner": [500] * 3,
    "percentile": [500] * 3,
    "successive-halving": [100] * 3,  # at the first report after a sixteenth of the budget
    "SuccessiveHalvingPruner": [100] * 3,
    "sha": [100] * 3,
    "hyperband": [100, 100, 200],  # depends on the bracket
    "asha": [100] * 3,  # as successive halving, since plain Optuna pauses no trials
    "keep-top": [300] * 3,
    "patient": [700] * 3,  # after more than five falling reports
    "threshold": [100] * 3,
}
"""Pruner -> the step (of 1,000) at which it prunes each of three trials that fall behind."""


@pytest.mark.parametrize("name", [*PRUNERS, "MedianPruner", "SuccessiveHalvingPruner", "nop", "NopPruner"])
def test_every_pruner_prunes_trials_that_fall_behind_and_no_leader(name: str, make_spec: Make) -> None:
    kwargs = {"lower": 0.0} if name == "threshold" else {}
    study = optuna.create_study(direction="maximize", pruner=make_pruner(name, kwargs, make_spec()))

    def stopped_at(value: Callable[[int], float]) -> int | None:
        trial = study.ask()
        study._storage.set_trial_system_attr(trial._trial_id, HELD_ATTR, True)  # as trials of the search have it
        for step in range(100, 1100, 100):
            trial.report(value(step), step)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                return step
        study.tell(trial, value(1000))
        return None

    for number in range(6):
        assert (
            stopped_at(lambda step, worth=number: worth + step / 100) is None
        )  # each trial is better than all earlier ones
    assert [stopped_at(lambda step: 20.0 + step) for _ in range(2)] == [None, None]
    assert [stopped_at(lambda step: -5.0 - step / 100) for _ in range(3)] == PRUNED_AT[name]


@pytest.mark.parametrize("name", ["wilcoxon", "WilcoxonPruner"])
def test_withdrawn_pruner_raises_with_the_reason(name: str, make_spec: Make) -> None:
    assert name not in PRUNERS
    for own, kwargs in ((name, {}), ("patient", {"wrapped": name})):
        with pytest.raises(StudyError, match=r"points of one learning curve for independent .* Use 'race'"):
            make_pruner(own, kwargs, make_spec())


def test_stored_study_with_withdrawn_pruner_runs_with_another_pruner(storage: StudyStorage, make_spec: Make) -> None:
    with open_study(make_spec(), storage) as study:
        kept = {**study.spec.to_json_dict(), "pruner": "wilcoxon"}
        study.study.set_user_attr(SPEC_ATTR, kept)
    assert load_study("a study", storage).spec.pruner == "wilcoxon"
    for again in (lambda: open_study(make_spec(pruner="wilcoxon"), storage), lambda: join_study("a study", storage)):
        with pytest.raises(StudyError, match="the scheduler 'wilcoxon' was withdrawn"):
            again()
    with open_study(make_spec(pruner="median"), storage) as study:
        assert study.spec.pruner == "median"


def test_invalid_pruner_arguments_raise(make_spec: Make) -> None:
    with pytest.raises(StudyError, match="'n_warmup_steps'"):
        make_pruner("median", {"n_warmup": 3}, make_spec())
    with pytest.raises(StudyError, match="percentile"):
        make_pruner("median", {"percentile": 3}, make_spec())
    with pytest.raises(StudyError, match="no arguments"):
        make_pruner("none", {"patience": 3}, make_spec())
    with pytest.raises(StudyError, match="percentile is 101"):
        make_pruner("percentile", {"percentile": 101}, make_spec())
    with pytest.raises(StudyError, match="env_steps"):
        make_pruner("hyperband", {}, make_spec(env_steps=None, episodes=5))
    with pytest.raises(StudyError, match="'medain'"):
        make_pruner("patient", {"wrapped": "medain"}, make_spec())


def finished(study: optuna.Study, curve: dict[int, float]) -> None:
    study.add_trial(
        create_trial(value=list(curve.values())[-1], intermediate_values=curve, system_attrs={HELD_ATTR: True})
    )


def verdict(
    pruner: optuna.pruners.BasePruner, others: list[dict[int, float]], own: dict[int, float], **kw: Any
) -> bool:
    study = optuna.create_study(direction=kw.get("direction", "maximize"), pruner=pruner)
    for curve in others:
        finished(study, curve)
    trial = study.ask()
    for step, value in own.items():
        trial.report(value, step)
    return trial.should_prune()


def test_equal_steps_pruner_agrees_with_optuna_where_steps_coincide() -> None:
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(60):
        direction = str(rng.choice(["maximize", "minimize"]))
        others = [{step: float(rng.normal()) for step in (10, 20, 30)} for _ in range(5)]
        own = {step: float(rng.normal()) for step in (10, 20)}
        percentile = float(rng.choice([25.0, 50.0, 75.0]))
        theirs = optuna.pruners.PercentilePruner(percentile, n_startup_trials=4, n_warmup_steps=15)
        ours = SchedulerPruner(Percentile(percentile, n_startup_trials=4, n_warmup_steps=15))
        outcomes.append(verdict(ours, others, own, direction=direction))
        assert outcomes[-1] == verdict(theirs, others, own, direction=direction)
    assert len(set(outcomes)) == 2  # both verdicts occur


def test_values_of_other_trials_are_interpolated_between_reports() -> None:
    others = [{0: 0.0, 100: 100.0}] * 4
    assert verdict(SchedulerPruner(Percentile(n_warmup_steps=0)), others, {50: 49.0})
    assert not verdict(SchedulerPruner(Percentile(n_warmup_steps=0)), others, {50: 51.0})
    assert not verdict(
        SchedulerPruner(Percentile(n_warmup_steps=0)), others, {150: 1.0}
    )  # no other trial has reached this step


def test_no_trial_is_pruned_during_warmup() -> None:
    others = [{10: 9.0, 100: 9.0}] * 4
    assert not verdict(SchedulerPruner(Percentile(n_warmup_steps=50)), others, {49: 0.0})
    assert verdict(SchedulerPruner(Percentile(n_warmup_steps=50)), others, {50: 0.0})
    assert not verdict(
        SchedulerPruner(Percentile()), others, {49: 0.0}
    )  # the default warm-up: half of the usual length, 50
    assert verdict(SchedulerPruner(Percentile()), others, {51: 0.0})
    assert not verdict(
        SchedulerPruner(Percentile(n_warmup_steps=50)), others[:3], {60: 0.0}
    )  # fewer than 4 complete trials
    assert verdict(SchedulerPruner(Percentile(n_warmup_steps=0)), others, {60: math.nan})


def test_median_pruner_warms_up_for_half_of_the_budget(make_spec: Make) -> None:
    pruner = make_pruner("median", {}, make_spec(env_steps=1000))
    others = [dict.fromkeys(range(100, 1100, 100), 9.0)] * 4
    assert not verdict(pruner, others, {400: 0.0})
    assert verdict(pruner, others, {500: 0.0})


@pytest.mark.parametrize(("name", "kwargs"), [("median", {}), ("patient", {"patience": 0, "wrapped": "median"})])
def test_trials_outside_of_the_search_space_prune_no_trial(name: str, kwargs: dict[str, Any], make_spec: Make) -> None:
    def is_pruned_beside(parameter: str) -> bool:
        """Return whether a falling trial is pruned beside four better ones that have this parameter."""
        study = optuna.create_study(direction="maximize", pruner=make_pruner(name, kwargs, make_spec()))
        space = {parameter: optuna.distributions.FloatDistribution(1e-5, 1e-1)}
        for _ in range(4):
            curve = {500: 9.0, 600: 9.0}
            study.add_trial(
                create_trial(value=9.0, params={parameter: 1e-3}, distributions=space, intermediate_values=curve)
            )
        trial = study.ask()
        trial.report(1.0, 500)
        trial.report(0.0, 600)
        return trial.should_prune()

    assert is_pruned_beside("learning_rate")
    assert not is_pruned_beside("gamma")


def pruning_steps(
    pruner: optuna.pruners.BasePruner, curves: list[dict[int, float]], direction: str = "maximize"
) -> list[int]:
    """Return the step at which each of several concurrent trials is pruned; 0 for trials that are not."""
    study = optuna.create_study(direction=direction, pruner=pruner)
    trials = [study.ask() for _ in curves]
    ends = [0] * len(curves)
    for step in curves[0]:
        there = [i for i, end in enumerate(ends) if end == 0]
        for i in there:
            trials[i].report(curves[i][step], step)
        behind = [i for i in there if trials[i].should_prune()]
        for i in behind:
            study.tell(trials[i], state=TrialState.PRUNED)
            ends[i] = step
    return ends


def test_halving_keeps_the_best_of_each_rung_in_any_order() -> None:
    # 8 trials, rungs at 10, 20 and 40, halved each time: 4, 2 and 1 continue.
    curves = [dict.fromkeys((10, 20, 40, 80), float(value)) for value in (3, 0, 7, 1, 6, 2, 5, 4)]
    assert pruning_steps(SchedulerPruner(Halving(10, 2)), curves) == [10, 10, 0, 10, 40, 10, 20, 20]
    assert pruning_steps(SchedulerPruner(Halving(10, 2)), curves[::-1]) == [20, 20, 10, 40, 10, 0, 10, 10]


def test_halving_minimizes_and_prunes_at_rungs_only() -> None:
    curves = [dict.fromkeys((5, 12, 15, 30), float(value)) for value in range(6)]
    # Rungs at 10 and 30 keep a third each: 2 trials, then 1. The first report at or after 10 is at 12.
    assert pruning_steps(SchedulerPruner(Halving(10, 3)), curves, "minimize") == [0, 30, 12, 12, 12, 12]


def test_halving_prunes_nan() -> None:
    assert pruning_steps(SchedulerPruner(Halving(10, 2)), [{10: math.nan}, {10: 1.0}]) == [10, 0]


def test_halving_keeps_all_trials_of_equal_value() -> None:
    assert pruning_steps(SchedulerPruner(Halving(10, 2)), [{10: 1.0}] * 4) == [0, 0, 0, 0]


def test_median_pruner_prunes_concurrent_trials() -> None:
    curves = [dict.fromkeys((10, 20, 30), float(value)) for value in range(6)]
    # The median of 0 to 5 without the trial itself: 0, 1 and 2 are below it, and no other trial is at later steps.
    assert pruning_steps(SchedulerPruner(Percentile(n_warmup_steps=20)), curves) == [20, 20, 20, 0, 0, 0]


def test_pruned_trials_count_towards_the_median() -> None:
    """If they did not, the median would rise with each pruned trial until one is left."""
    curves = [{10: float(value), 20: 10.0 + value} for value in range(8)]
    assert pruning_steps(SchedulerPruner(Percentile(n_warmup_steps=10)), curves) == [10, 10, 10, 10, 0, 0, 0, 0]
