"""Studies with conditional parameters: what trials have, what samplers propose, and what figures show."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from death import simulate_crash
from optuna.trial import Trial, TrialState
from sampler_packages import skip_without_package

from studies.analysis.recommendation import best
from studies.figures.figures import study_figures
from studies.figures.importances import importances_data
from studies.figures.parallel_coordinates import parallel_coordinates_data
from studies.judging.confirmation import verdict
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports import plot_trials
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import load_study

Make = Callable[..., StudySpec]
SPACE = {
    "optimizer.nesterov": "true,false@optimizer.momentum_kind=heavy",  # before the parameter that it depends on
    "optimizer": "adam,sgd,rmsprop",
    "learning_rate": "1e-5:1e-1:log",
    "optimizer.momentum_kind": "none,heavy@optimizer=sgd,rmsprop",
    "optimizer.momentum": "0:0.99@optimizer=sgd@optimizer.momentum_kind=heavy",
}


def should_have(params: dict[str, Any]) -> set[str]:
    """Return the names that a trial with this optimizer has, by the rules of `SPACE` written out by hand."""
    names = {"optimizer", "learning_rate"}
    if params["optimizer"] in ("sgd", "rmsprop"):
        names.add("optimizer.momentum_kind")
        if params["optimizer.momentum_kind"] == "heavy":
            names.add("optimizer.nesterov")
            if params["optimizer"] == "sgd":
                names.add("optimizer.momentum")
    return names


def value_of(params: dict[str, Any]) -> float:
    """Return a value that is best for SGD with a momentum of 0.9."""
    return 10 - abs(math.log10(params["learning_rate"]) + 3) + 5 * params.get("optimizer.momentum", 0.0)


def run(make_spec: Make, storage: StudyStorage, total: int, name: str = "s", **changes: Any) -> list[dict[str, Any]]:
    spec = make_spec(**{"name": name, "params": SPACE, "n_trials": total, "seeds": (0, 1), "seed": 3, **changes})
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            assert set(ask.params) == should_have(dict(ask.params))
            value = value_of(dict(ask.params))
            recorder.completed(ask.number, value, {0: value - 0.1, 1: value + 0.1})
        return [study.params(trial) for trial in study.trials()]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc", "nsgaii", "cmaes"])
def test_trials_have_the_parameters_that_exist_whenever_the_study_is_interrupted(
    sampler: str, storage: StudyStorage, make_spec: Make, caplog: pytest.LogCaptureFixture
) -> None:
    skip_without_package(sampler)
    with caplog.at_level(logging.WARNING):
        whole = run(make_spec, storage, 24, sampler=sampler)
        for total in (1, 7, 24):
            parts = run(make_spec, storage, total, "parts", sampler=sampler)
    assert parts == whole
    assert {len(params) for params in whole} >= {2, 3}
    assert "independent" not in caplog.text


@pytest.mark.slow
def test_tpe_learns_a_conditional_parameter_from_the_trials_that_have_it(
    storage: StudyStorage, make_spec: Make
) -> None:
    proposed = [run(make_spec, storage, 60, f"{seed}", seed=seed, seeds=1)[40:] for seed in range(2)]
    late = [params for each in proposed for params in each]
    with_momentum = [params["optimizer.momentum"] for params in late if "optimizer.momentum" in params]
    assert len(with_momentum) > len(late) / 2, "random search has it in one of six trials"
    assert sorted(with_momentum)[len(with_momentum) // 2] > 0.7, "half of random values would be below 0.5"


@pytest.mark.parametrize("kwargs", [{"multivariate": False}, {"group": False}, {"multivariate": True}])
def test_arguments_of_the_user_prevail(kwargs: dict[str, Any], storage: StudyStorage, make_spec: Make) -> None:
    run(make_spec, storage, 14, sampler_kwargs={"n_startup_trials": 3, **kwargs})


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("n_set", [1, 2, 3])
def test_crash_between_two_parameters_changes_no_proposal(
    sampler: str, n_set: int, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(make_spec, storage, 15, "whole", sampler=sampler)
    number = next(i for i, params in enumerate(whole) if i > 11 and len(params) > n_set)
    run(make_spec, storage, number, "killed", sampler=sampler)
    suggest, names = Trial._suggest, list[str]()

    def killed(self: Trial, name: str, distribution: Any) -> Any:
        if len(names) == n_set:
            raise KeyboardInterrupt
        names.append(name)
        return suggest(self, name, distribution)

    monkeypatch.setattr(Trial, "_suggest", killed)
    spec = make_spec(name="killed", params=SPACE, n_trials=15, sampler=sampler, seed=3, seeds=(0, 1))
    with open_study(spec, storage) as study:
        with pytest.raises(KeyboardInterrupt):
            Recorder(study).ask()
        monkeypatch.undo()
        assert len(study.trials()[number].params) == n_set
        simulate_crash(study)
    assert run(make_spec, storage, 15, "killed", sampler=sampler) == whole


@pytest.mark.slow
def test_first_trials_and_grids_have_what_exists(storage: StudyStorage, make_spec: Make) -> None:
    first = [{"optimizer": "sgd", "optimizer.momentum_kind": "heavy", "optimizer.momentum": 0.5}, {"optimizer": "adam"}]
    found = run(make_spec, storage, 2, first=first)
    assert (found[0]["optimizer.momentum"], set(found[1])) == (0.5, {"optimizer", "learning_rate"})
    coarse = {
        "learning_rate": [1e-3, 1e-4],
        "optimizer.momentum": "0.0,0.9@optimizer=sgd@optimizer.momentum_kind=heavy",
    }
    planned = run(make_spec, storage, 100, "g", sampler="grid", params={**SPACE, **coarse})
    # adam 1; sgd none 1, heavy 2 momenta x 2 nesterov; rmsprop none 1, heavy 2 nesterov; each at two rates.
    assert len(planned) == 2 * (1 + 1 + 4 + 1 + 2)
    assert run(make_spec, storage, 100, "g", sampler="grid", params={**SPACE, **coarse}) == planned


def test_queued_trial_of_the_dashboard_loses_what_does_not_exist(storage: StudyStorage, make_spec: Make) -> None:
    run(make_spec, storage, 1)
    with open_study(make_spec(name="s", params=SPACE, n_trials=2, seeds=(0, 1), seed=3), storage) as study:
        study.study.enqueue_trial({"optimizer": "adam", "learning_rate": 1e-3, "optimizer.momentum": 0.5})
    assert run(make_spec, storage, 2)[1] == {"optimizer": "adam", "learning_rate": 1e-3}


@pytest.mark.slow
def test_conclusion_and_figures_of_a_conditional_space(storage: StudyStorage, make_spec: Make) -> None:
    run(make_spec, storage, 40, confirm=0)
    with load_study("s", storage) as study:
        pick = best(study)
        assert pick.params["optimizer"] == "sgd"
        assert pick.params["optimizer.momentum"] > 0.5
        assert verdict(study).pick is not None
        assert {each.name for each in importances_data(study).importances} == set(SPACE)
        data = parallel_coordinates_data(study)
        [place] = [i for i, axis in enumerate(data.axes) if axis.name == "optimizer.momentum"]
        assert (-0.1, "not set") in data.axes[place].ticks
        lacking = {trial.number for trial in study.trials() if "optimizer.momentum" not in trial.params}
        assert {line.number for line in data.lines if line.places[place] == -0.1} == lacking
        assert len(study_figures(study)) > 3
        plot_trials(study)


@pytest.mark.slow
def test_conditional_learning_rate(storage: StudyStorage, make_spec: Make) -> None:
    space = {"optimizer": "adam,sgd", "learning_rate": "1e-4:1e-2:log@optimizer=adam", "gamma": "0.9:0.99"}
    spec = make_spec(params=space, n_trials=20, seeds=(0, 1), pruner="race", confirm=0)
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            assert ("learning_rate" in ask.params) == (ask.params["optimizer"] == "adam")
            value = 5.0 if "learning_rate" not in ask.params else -abs(math.log10(ask.params["learning_rate"]) + 3)
            recorder.completed(ask.number, value, {0: value - 0.1, 1: value + 0.1})
        pick = best(study)
        assert (pick.params["optimizer"], pick.rate) == ("sgd", None)
        assert all(trial.state == TrialState.COMPLETE for trial in study.trials())
        assert len(study_figures(study)) > 3
