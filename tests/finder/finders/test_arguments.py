"""Arguments of finders: numbers of NumPy, paths, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.pruners import MedianPruner
from optuna.samplers import RandomSampler

import agents
import finder
import studies
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError
from agents.training.training_run import TrainingRun
from finder.finders.lr import LRFinder
from finder.finders.optimizer import OptFinder
from finder.range_test.range_test import RangeTestResult
from finder.range_test.recording import record_range_test
from finder.range_test.suggestion import no_suggestion
from finder.range_test.sweep import Sweep
from studies import reports
from studies.errors import StudyError
from studies.spaces.spaces import Choice
from studies.spec.spec import StudySpec


def train(run: TrainingRun, width: int = 64, gamma: float = 0.9) -> None:
    while True:
        run.report(episode_return=width + gamma, length=10)


SEARCH: dict[str, Any] = {
    **{"env_steps": 100, "n_trials": 2, "seeds": 1, "confirm": 0},
    **{"storage": None, "progress": False, "executor": "inline"},
}


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({"width": "32:64"}, {"env_steps": np.int64(100), "horizon": np.int64(200)}),
        ({"width": "32:64"}, {"env_steps": None, "episodes": np.int64(10)}),
        ({"width": "32:64"}, {"confirm": np.int64(1), "confirm_seeds": np.int64(1), "n_jobs": np.int64(1)}),
        ({"width": "32:64"}, {"n_trials": np.int64(2), "seed": np.int64(3), "seeds": np.array([3, 4])}),
        ({"width": "32:64"}, {"fixed": {"gamma": np.float32(0.5)}, "first": [{"width": np.int64(40)}]}),
        ({"width": np.array([32, 64])}, {"first": ({"width": np.int64(32)},)}),
        ({"width": Choice(np.array([32, 64]))}, {"seeds": np.int32(1)}),
    ],
)
def test_a_search_takes_numbers_of_numpy(params: Any, options: dict[str, Any]) -> None:
    result = finder.tune(train, "CartPole-v1", params, **{**SEARCH, **options})
    assert len(result.table()) == 2
    assert type(result.best.params["width"]) is int


FIND: dict[str, Any] = {"start_lr": 1e-5, "end_lr": 1e-2, "N": 5}


@pytest.mark.parametrize(
    ("arguments", "seeds"),
    [
        ({"N": np.int64(5), "window_size": np.int32(20)}, (0, 1, 2)),
        ({"start_lr": np.float32(1e-5), "end_lr": np.float64(1e-2)}, (0, 1, 2)),
        ({"seeds": np.int64(1)}, (0,)),
        ({"seeds": np.array([3, 4])}, (3, 4)),
        ({"seeds": (seed for seed in (3, 4))}, (3, 4)),
        ({"seeds": {5}}, (5,)),
    ],
)
def test_a_range_test_takes_numbers_of_numpy(arguments: dict[str, Any], seeds: tuple[int, ...]) -> None:
    numbers = LRFinder("ppo", "CartPole-v1").check_find(**{**FIND, **arguments})
    assert numbers == seeds
    assert {type(number) for number in numbers} == {int}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(({"N": value}, "N must be >= 1 .* and whole, got") for value in ("10", 2.5, None, True, np.array([5]))),
        ({"window_size": "20"}, "window_size must be >= 1"),
        ({"start_lr": "1e-5"}, "start_lr must be > 0"),
        ({"progress": "bar"}, "progress is 'bar': give True or False"),
        *(({"seeds": value}, "give how many seeds, or a list of them") for value in ("01", 1.5, True, None)),
        *(({"seeds": value}, "how many seeds") for value in ([0.5], ["0"], [True], [], [1, 1], [-1], 0, 10**6)),
    ],
)
def test_a_range_test_refuses_other_numbers(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        LRFinder("ppo", "CartPole-v1").find(**{**FIND, **arguments}, storage=None)


def test_a_finder_refuses_a_seed_that_is_no_number() -> None:
    with pytest.raises(ConfigurationError, match="seed must be a whole number >= 0, got 'x'"):
        LRFinder("ppo", "CartPole-v1", seed="x")  # type: ignore[arg-type]


def test_a_range_test_of_numpy_is_recorded_and_read(tmp_path: Path) -> None:
    lr_finder = LRFinder("ppo", "CartPole-v1", seed=np.int64(2))  # type: ignore[arg-type]
    lr_finder.find(
        np.float32(1e-5),
        1e-2,
        np.int64(5),
        env_steps=2100,
        seeds=np.int64(1),
        storage=tmp_path / "s.db",
        progress=False,
    )
    with studies.load_study(str(lr_finder.study_name), tmp_path / "s.db") as study:
        (trial,) = study.trials()
    assert trial.state.is_finished()
    assert study.spec.seeds == (2,)
    assert trial.user_attrs["settings"]["N"] == 5


def test_a_range_test_that_cannot_be_stored_leaves_no_study(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/s.db"
    sweep = Sweep()
    result = RangeTestResult(
        metric="return",
        optimizer="all",
        rewards=sweep,
        losses=sweep,
        normalized=[],
        suggestion=no_suggestion("minimum", "no points"),
        reason="budget reached",
    )
    agent = AgentSpec.of("ppo", "CartPole-v1")
    with pytest.raises(StudyError, match="cannot be stored"):
        record_range_test(agent, (), result, {"N": object()}, fields={}, study_name="r", storage=storage)
    assert not list(tmp_path.iterdir())


def test_storages_are_paths_or_urls(tmp_path: Path) -> None:
    options = {**SEARCH, "storage": tmp_path / "a.db", "study_name": "first"}
    first = finder.tune(train, "CartPole-v1", {"width": "32:64"}, **options)
    assert first.study.spec.storage == str(tmp_path / "a.db")
    options |= {"storage": tmp_path / "b.db", "study_name": "second", "warm_start_trials": np.int64(1)}
    for source, storage in (("first", tmp_path / "a.db"), (first, None), (first.study, None)):
        second = finder.tune(
            *(train, "CartPole-v1", {"width": "32:64"}), **options, warm_start=source, warm_start_storage=storage
        )
        assert second.study.spec.first[0] == first.best.params
    assert [summary.name for summary in studies.list_studies(tmp_path / "b.db")] == ["second"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_start": 3}, "warm_start is 3: give the name of a study, an open study .*load_study.* or the result"),
        ({"warm_start": "w", "warm_start_storage": " "}, "warm_start_storage is ' ': give a file or a URL"),
        ({"warm_start": "w", "warm_start_storage": 3}, "warm_start_storage is 3: give a file or a URL"),
        ({"warm_start": "w", "warm_start_trials": 1.5}, "warm_start_trials must be a whole number >= 0"),
    ],
)
def test_a_warm_start_from_something_else_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        finder.tune(train, "CartPole-v1", {"width": "32:64"}, **SEARCH, **options)


TUNE_MISTAKES = [
    (
        {"sampler": RandomSampler()},
        "sampler is <.*RandomSampler.*: give a name, such as sampler='tpe'.* sampler_kwargs",
    ),
    ({"pruner": MedianPruner()}, "pruner is <.*MedianPruner.*: give a name, such as pruner='median'.* pruner_kwargs"),
    ({"scheduler": MedianPruner()}, "scheduler is <.*MedianPruner.*: give a name"),
    ({"metric": len}, "metric is <built-in function len>: give the name of a metric"),
    ({"metric": ["return", len]}, "give the name of a metric"),
    (
        {"callbacks": agents.Progress},
        r"callbacks is <class .*Progress'>: give a list of factories, such as \[Progress\]",
    ),
    ({"callbacks": "my.py:Mine"}, "callbacks is 'my.py:Mine': give a list of factories"),
    ({"first": pd.DataFrame({"width": [32]})}, r"first is a DataFrame: give a list .*first=frame.to_dict\('records'\)"),
    ({"first": {"width": 32}}, "first is a dict: give a list of parameter sets"),
    ({"progress": "bar"}, "progress is 'bar': give True or False, or an observer"),
    ({"progress": object()}, "progress is <object .*: give True or False, or an observer"),
    ({"pruner": "patient", "pruner_kwargs": {"patience": 2.5}}, "has 2.5 as patience: give a whole number"),
    ({"pruner": "keep-top", "pruner_kwargs": {"keep": 1.5}}, "has 1.5 as keep: give a whole number"),
    ({"pruner": "median", "pruner_kwargs": {"n_warmup_steps": 0.5}}, "steps, not a share of the budget"),
]


@pytest.mark.parametrize(("options", "message"), TUNE_MISTAKES)
def test_an_argument_of_another_kind_is_refused_before_anything_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigurationError, StudyError), match=message):
        finder.tune(train, "CartPole-v1", {"width": "32:64"}, **{**SEARCH, "storage": tmp_path / "s.db", **options})
    assert finder_studies(tmp_path / "s.db") == []


def finder_studies(path: Path) -> list[str]:
    return [summary.name for summary in studies.list_studies(path)] if path.exists() else []


@pytest.mark.parametrize("rates", [1e-3, [None], ["x"], "1e-3,1e-2", len])
def test_rates_of_another_kind_are_refused(rates: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"rates is .*: give a list of learning rates, such as"):
        LRFinder("ppo", "CartPole-v1").grid(rates=rates, storage=None)
    with pytest.raises(ConfigurationError, match="learning_rates"):
        OptFinder("ppo", ["adam"], "CartPole-v1").find(learning_rates=rates, storage=None)
    with pytest.raises(ConfigurationError, match=r"learning_rates of 'adam' is .*: give a list"):
        OptFinder("ppo", ["adam"], "CartPole-v1").find(learning_rates={"adam": rates}, storage=None)


@pytest.mark.parametrize("n_rates", [2.5, "2", True])
def test_a_number_of_rates_of_another_kind_is_refused(n_rates: Any) -> None:
    with pytest.raises(ConfigurationError, match="n_rates must be >= 1 and <= 1000, and whole, got"):
        OptFinder("ppo", ["adam"], "CartPole-v1").find(n_rates=n_rates, storage=None)


@pytest.mark.parametrize(
    "rates", [np.array([1e-3, 1e-2]), (np.float64(rate) for rate in (1e-3, 1e-2)), {"sgd": np.array([1e-3, 1e-2])}]
)
def test_rates_are_arrays_or_anything_with_numbers(rates: Any) -> None:
    plan: list[Any] = []

    class Seen:
        def study_opened(self, study: studies.OpenStudy, n_left: int, executor: Any) -> None:
            plan.extend(study.spec.trials)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        OptFinder("ppo", ["sgd"], "CartPole-v1").find(
            learning_rates=rates, env_steps=64, seeds=1, confirm=0, storage=None, observer=Seen(), executor="inline"
        )
    assert plan == [{"optimizer": "sgd", "learning_rate": rate} for rate in (1e-3, 1e-2)]


@pytest.mark.parametrize("vary", [["momentum"], "momentum"])
def test_arguments_to_vary_have_values(vary: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"vary is .*momentum.*: give arguments of optimizers with their values"
    ):
        OptFinder("ppo", ["sgd"], "CartPole-v1", vary=vary)


def test_a_dry_run_takes_the_call_and_its_arguments_apart() -> None:
    with pytest.raises(
        ConfigurationError, match=r"dry_run plans a function, but got the type dict: .*dry_run\(finder.tune, 'ppo'"
    ):
        finder.dry_run({})  # type: ignore[arg-type]


OF_A_STUDY: list[Any] = [
    studies.best, lambda given: studies.compare([given, given]), studies.plot_importances, studies.plot_learning_curves,
    studies.plot_learning_rate, studies.plot_optimizers, studies.plot_parallel_coordinates, studies.plot_pareto_front,
    studies.plot_trials, studies.attach_figures, studies.Recorder, reports.range_tests_data, reports.states_data,
    reports.learning_rate_params, lambda given: finder.recommended_agent(given, given),
]  # fmt: skip


@pytest.mark.parametrize("read", OF_A_STUDY)
def test_the_name_of_a_study_is_no_study(read: Any) -> None:
    with pytest.raises(StudyError, match=r"'th0' is not an open study: open it by studies.load_study\(name, storage\)"):
        read("th0")
    with pytest.raises(StudyError, match=r"<optuna.study.* is not an open study"):
        read(optuna.create_study())


@pytest.mark.parametrize(
    "draw", [studies.plot_picks, studies.plot_progress, lambda it: studies.write_comparison(it, "c")]
)
def test_studies_are_no_comparison_of_them(draw: Any) -> None:
    with pytest.raises(StudyError, match=r"is not a comparison: give the result of studies.compare\(\[one, other\]\)"):
        draw(["th0", "th1"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda study, url: studies.compare(study), r"studies is OpenStudy\(.*: give a list of open studies"),
        (lambda study, url: studies.compare("th0"), "studies is 'th0': give a list of open studies"),
        (
            lambda study, url: studies.open_study("th0"),
            r"spec is 'th0': .* opened by studies.load_study\(name, storage\)",
        ),
        (lambda study, url: finder.run_search("th0.toml"), r"spec is 'th0.toml': .* run by finder.run_file\(path\)"),
        (
            studies.load_study,
            "study_name is OpenStudy.*: give the name of a study in sqlite",
        ),
        (studies.delete_study, "study_name is OpenStudy"),
        (lambda study, url: studies.join_study(study.study, url), "study_name is <optuna"),
        (lambda study, url: studies.best_optimizer(None, url), "study_name is None"),
        (
            lambda study, url: studies.load_study("th0", study),
            r"storage is OpenStudy.*: give the path.* is study.storage",
        ),
        (lambda study, url: studies.list_studies(study.study), "storage is <optuna"),
        (lambda study, url: finder.recommended_agent(study, "th0"), r"pick is 'th0': .* studies.best\(study\)"),
        (
            lambda study, url: finder.plot_runs(study),
            "runs is OpenStudy.*: give the folder of a run.*plot_learning_curves",
        ),
        (lambda study, url: finder.histories_data([study]), "give the folder of a run"),
    ],
)
def test_another_object_in_place_of_an_argument_is_named(tmp_path: Path, call: Any, message: str) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    spec = StudySpec(name="th0", storage=url, agents="ppo", env="CartPole-v1", env_steps=10, fixed={"gamma": 0.9})
    with studies.open_study(spec) as study, pytest.raises((StudyError, ConfigurationError), match=message):
        call(study, url)


@pytest.mark.parametrize("write", [finder.export, studies.write_report])
def test_the_name_of_a_study_cannot_be_exported(write: Any, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="'th0' is not an open study: open it by"):
        write("th0", tmp_path / "t.csv")
