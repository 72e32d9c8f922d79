"""Tests of the extension of the range when the best rate is at its edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from finder import LRFinder
from studies import load_study, open_study
from studies.judging.confirmation import verdict
from studies.judging.range_extension import RangeExtension
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.study.study import OpenStudy

SMALL = {"n_envs": 1, "n_steps": 32, "batch_size": 16, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}


def searched(rows: list[dict[str, Any]], worth: Callable[[dict[str, Any]], float], **fields: Any) -> OpenStudy:
    """Return a study of these rows with the values given by `worth`."""
    spec = StudySpec(
        name="s",
        storage="memory",
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=1000,
        trials=tuple(rows),
        pruner="none",
        **fields,
    )
    study = open_study(spec)
    with Recorder(study) as recorder:
        run(recorder, worth)
    return study


def run(recorder: Recorder, worth: Callable[[dict[str, Any]], float]) -> None:
    while (ask := recorder.ask()) is not None:
        value = worth(ask.params)
        recorder.started(ask.number, {"agent": "ppo", "config": {}, "env": "CartPole-v1"})
        recorder.completed(ask.number, value, {seed: value + 0.01 * seed for seed in ask.seeds})


def rates(*values: float) -> list[dict[str, Any]]:
    return [{"learning_rate": value} for value in values]


def test_range_with_an_inner_best_is_not_extended():
    rows = rates(1e-4, 1e-3, 1e-2)
    study = searched(rows, lambda params: -abs(math.log10(params["learning_rate"]) + 3))
    assert RangeExtension(rows)(study) == []


@pytest.mark.parametrize("fields", [{"seeds": (0,)}, {"seeds": (0, 1), "confirm_env_steps": 2000}])
def test_rates_that_were_not_confirmed_count_after_a_confirmation(fields: dict[str, Any]):
    rows = rates(1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1)
    study = searched(rows, lambda params: -abs(math.log10(params["learning_rate"]) + 2.5), confirm=3, **fields)
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:  # the highest one that is confirmed is now the best
            value = math.log10(ask.params["learning_rate"])
            recorder.completed(ask.number, value, {seed: value + 0.01 * seed for seed in ask.seeds})
    found = verdict(study)
    assert found.finalists_alone
    assert found.pick is not None
    assert found.pick.params["learning_rate"] == 1e-2
    assert RangeExtension(rows)(study) == []


def test_decade_beyond_the_edge_is_added_with_the_same_spacing():
    rows = rates(1e-4, 10**-3.5, 1e-3)
    study = searched(rows, lambda params: math.log(params["learning_rate"]))
    assert RangeExtension(rows)(study) == rates(3.162e-3, 1e-2)
    study = searched(rows, lambda params: -math.log(params["learning_rate"]))
    assert RangeExtension(rows)(study) == rates(3.162e-5, 1e-5)


def test_plan_grows_by_two_decades_at_most():
    rows = rates(1e-3, 1e-2)
    further = RangeExtension(rows)
    study = searched(rows, lambda params: -math.log(params["learning_rate"]))
    added = []
    with Recorder(study) as recorder:
        while new := further(study):
            added += new
            study = recorder.extend_plan(new)
            run(recorder, lambda params: -math.log(params["learning_rate"]))
    assert added == rates(1e-4, 1e-5)  # two decades beyond
    assert study.spec.n_trials == 4


def test_each_optimizer_has_its_own_edges():
    rows = [{"optimizer": name, "learning_rate": rate} for name in ("adam", "sgd") for rate in (1e-3, 1e-2, 1e-1)]

    def worth(params: dict[str, Any]) -> float:
        best = 1e-2 if params["optimizer"] == "adam" else 1.0
        return -abs(math.log10(params["learning_rate"] / best))

    assert RangeExtension(rows)(searched(rows, worth)) == [{"optimizer": "sgd", "learning_rate": 1.0}]


def test_optimizer_with_mere_noise_is_not_extended():
    rows = [{"optimizer": name, "learning_rate": 10.0**-k} for name in ("adam", "sgd") for k in (4, 3, 2)]
    noise = {4: 20.0, 3: 20.002, 2: 20.004}

    def worth(params: dict[str, Any]) -> float:
        power = round(-math.log10(params["learning_rate"]))
        return {4: 50.0, 3: 500.0, 2: 60.0}[power] if params["optimizer"] == "adam" else noise[power]

    assert RangeExtension(rows)(searched(rows, worth)) == []


def test_rates_beyond_the_usual_maximum_are_not_added():
    rows = rates(1.0, 5.0)
    assert RangeExtension(rows)(searched(rows, lambda params: params["learning_rate"])) == []


@pytest.mark.slow
@pytest.mark.parametrize("extend", [True, False])
def test_restarted_search_is_not_extended_again(tmp_path: Any, extend: bool):
    storage = f"sqlite:///{tmp_path}/s.db"

    def search() -> Any:
        return LRFinder("ppo", "CartPole-v1").grid(
            1e-9, 1e-8, 2, env_steps=320, seeds=2, storage=storage, fixed=SMALL, executor="inline", extend=extend,
            study_name="edge", confirm=0,
        )  # fmt: skip

    with load_study(search().study.name, storage) as study:
        n_trials = len(study.trials())
    search()
    with load_study("edge", storage) as study:
        assert len(study.trials()) == n_trials, "the added trials must be part of the plan"
        assert study.spec.n_trials == n_trials
