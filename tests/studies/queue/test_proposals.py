"""Tests of proposals: no configuration is tried twice, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from death import simulate_crash
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import Trial, create_trial

from studies.queue import proposals
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]
FINITE = {
    "n_steps": "32,64",
    "gamma": "0.9,0.99",
    "n_epochs": {"low": 2, "high": 6, "step": 2},
    "clip_range": {"low": 0.1, "high": 0.3, "step": 0.1},
}
SAMPLERS = ["random", "tpe", "qmc", "nsgaii"]


def test_rows_of_a_plan_have_their_own_parameters_only(storage: StudyStorage, make_spec: Make) -> None:
    rows = ({"optimizer": "adam(CosineDecay(0.001, 300))"}, {"optimizer": "sgd", "learning_rate": 0.03})
    spec = make_spec(kind="opt", params={"activation": "relu"}, trials=rows)  # only one rate: it is fixed
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        asks = [recorder.ask(), recorder.ask()]
        assert [ask and ask.params for ask in asks] == [{"activation": "relu", **row} for row in rows]


def run(make_spec: Make, storage: StudyStorage, **fields: Any) -> list[dict[str, Any]]:
    """Return the parameters of all trials of a study; the discount of a trial is its value."""
    spec = make_spec(**{"seed": 7, **fields})
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.completed(ask.number, float(str(ask.params.get("gamma", 1))))
        return [study.params(trial) for trial in study.trials()]


def distinct(rows: list[dict[str, Any]]) -> int:
    return len({tuple(sorted(row.items())) for row in rows})


@pytest.mark.parametrize("sampler", ["random", *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS[1:])])
def test_whole_space_is_tried_once(sampler: str, storage: StudyStorage, make_spec: Make) -> None:
    rows = run(make_spec, storage, params=FINITE, n_trials=100, sampler=sampler)
    assert len(rows) == distinct(rows) == 2 * 2 * 3 * 3


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_part_of_a_space_has_no_repetition(sampler: str, storage: StudyStorage, make_spec: Make) -> None:
    first = [{"n_steps": 64, "gamma": 0.9, "n_epochs": 2, "clip_range": 0.1}]
    rows = run(make_spec, storage, params=FINITE, n_trials=20, sampler=sampler, first=first)
    assert rows[0] == first[0]
    assert len(rows) == distinct(rows) == 20


def test_conditional_choice_is_not_repeated_beside_a_range(storage: StudyStorage, make_spec: Make) -> None:
    """One branch is a single configuration, the other has a range of real numbers."""
    params = {"optimizer": "adam,sgd", "optimizer.momentum": "0.0:0.99@optimizer=sgd"}
    rows = run(make_spec, storage, params=params, n_trials=20, sampler="random")
    assert len(rows) == distinct(rows) == 20
    assert sum(row["optimizer"] == "adam" for row in rows) == 1


def test_rounded_numbers_are_the_same_configuration(storage: StudyStorage, make_spec: Make) -> None:
    """The fourth value of the range is 0.30000000000000004."""
    params = {"ent_coef": {"low": 0.0, "high": 0.7, "step": 0.1}}
    rows = run(make_spec, storage, params=params, n_trials=20, sampler="random", first=[{"ent_coef": 0.3}])
    assert sorted(round(float(row["ent_coef"]), 6) for row in rows) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_configuration_that_is_given_twice_takes_the_place_of_none(storage: StudyStorage, make_spec: Make) -> None:
    first = [{"n_steps": 64}, {"n_steps": 64}]
    rows = run(make_spec, storage, params={"n_steps": "32,64,128"}, n_trials=20, sampler="tpe", first=first)
    assert [row["n_steps"] for row in rows[:2]] == [64, 64]
    assert sorted(int(row["n_steps"]) for row in rows) == [32, 64, 64, 128]


@pytest.mark.parametrize("seed", range(5))
def test_first_trial_that_the_sampler_completes_repeats_none(seed: int, storage: StudyStorage, make_spec: Make) -> None:
    first = [{"n_steps": 32, "gamma": 0.9}, {"n_steps": 32}]
    params = {"n_steps": "32,64", "gamma": "0.9,0.99"}
    rows = run(make_spec, storage, params=params, n_trials=4, sampler="tpe", first=first, seed=seed)
    assert len(rows) == distinct(rows) == 4


def test_configuration_that_always_fails_is_tried_once(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(params={"n_steps": "1,2,4,8,16,32"}, n_trials=6, sampler="tpe")
    tried = []
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            tried.append(ask.params["n_steps"])
            if ask.params["n_steps"] == 8:
                recorder.failed(ask.number, "batches larger than the rollout")
            else:
                recorder.completed(ask.number, 1.0)
    assert sorted(map(int, map(str, tried))) == [1, 2, 4, 8, 16, 32]


def test_trial_of_another_program_takes_the_place_of_none(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(params={"optimizer": "adam,sgd,rmsprop"}, n_trials=3, sampler="random")
    with open_study(spec, storage) as study:
        choices = CategoricalDistribution(["adam", "sgd", "rmsprop"])
        foreign = {"optimizer": choices, "y": FloatDistribution(0, 1)}
        study.study.add_trial(create_trial(params={"optimizer": "adam", "y": 1.0}, distributions=foreign, value=1.0))
        with Recorder(study) as recorder:
            tried = []
            while (ask := recorder.ask()) is not None:
                tried.append(ask.params["optimizer"])
                recorder.completed(ask.number, 1.0)
    assert sorted(map(str, tried)) == ["adam", "rmsprop", "sgd"]


def test_failed_configuration_is_proposed_again_and_a_diverged_one_is_not(
    storage: StudyStorage, make_spec: Make
) -> None:
    spec = make_spec(params={"gamma": "0.9,0.99"}, n_trials=2, sampler="random")
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        first, second = recorder.ask(), recorder.ask()
        assert first is not None
        assert second is not None
        recorder.failed(first.number, "the environment was away")
        recorder.completed(second.number, 1.0)
    with open_study(spec, storage) as study, Recorder(study, retry_failed=True) as recorder:
        again = recorder.ask()
        assert again is not None
        assert again.params == first.params
        recorder.completed(again.number, 0.0)
        assert recorder.ask() is None


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, proposals.ATTEMPTS])
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_crash_between_two_parameters_changes_no_proposal(
    sampler: str, attempts: int, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of proposals after others that were tried before, and of the nearest ones where all were."""
    monkeypatch.setattr(proposals, "ATTEMPTS", attempts)
    fields = {"params": FINITE, "sampler": sampler}
    whole = run(make_spec, storage, name="whole", n_trials=34, **fields)
    for n_set in (1, 3):
        name = f"killed-{n_set}"
        run(make_spec, storage, name=name, n_trials=29, **fields)
        suggest, names = Trial._suggest, list[str]()

        def killed(self: Trial, name: str, distribution: Any, n: int = n_set, names: list[str] = names) -> Any:
            if len(names) == n:
                raise KeyboardInterrupt
            names.append(name)
            return suggest(self, name, distribution)  # noqa: B023 - called within this turn

        with monkeypatch.context() as patched:
            patched.setattr(Trial, "_suggest", killed)
            spec = make_spec(name=name, n_trials=34, seed=7, **fields)
            with open_study(spec, storage) as study:
                with pytest.raises(KeyboardInterrupt):
                    Recorder(study).ask()
                assert len(study.trials()[29].params) == n_set
                simulate_crash(study)
        assert run(make_spec, storage, name=name, n_trials=34, **fields) == whole


@pytest.mark.slow
def test_large_space_falls_back_on_a_repetition(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MOST_CONFIGURATIONS", 5)
    monkeypatch.setattr(proposals, "ATTEMPTS", 1)
    rows = run(make_spec, storage, params=FINITE, n_trials=30, sampler="random")
    assert distinct(rows) < len(rows) == 30


def test_nearest_configuration_differs_in_the_closest_number(make_spec: Make, storage: StudyStorage) -> None:
    def same(*_: Any) -> Any:
        return proposals._Draw({"gamma": 0.9, "n_epochs": 4}, is_sampled=True, is_same=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(proposals, "_drawn", same)
        params = {"gamma": "0.9,0.99", "n_epochs": "4:16:log"}
        rows = run(make_spec, storage, params=params, n_trials=4, sampler="random")
    assert [(row["gamma"], row["n_epochs"]) for row in rows] == [(0.9, 4), (0.9, 5), (0.9, 6), (0.9, 7)]
