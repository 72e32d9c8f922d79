"""Searches with several objectives: Pareto fronts, picks by one objective, and the commands for them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_PPO

import finder
from agents import ConfigurationError, TrainingRun
from studies import StudyError, StudySpec, load_study, open_study
from studies.analysis.conclusion import conclusion
from studies.analysis.listing import list_studies
from studies.analysis.recommendation import best
from studies.figures.pareto import plot_pareto_front
from studies.judging.missing_pick import why_no_pick
from studies.judging.pareto_front import pareto_front
from studies.reports.explanation import explain
from studies.reports.html import report_html
from studies.storage.dashboard_storage import DashboardStorage

METRICS = ["return", "steps-to:3", "custom:energy:minimize"]
QUICK: dict[str, Any] = {"executor": "inline", "seeds": 2, "progress": False}


def learns(run: TrainingRun, course: str = "500 10", energy: float = 1.0) -> None:
    """Report a return of 0 until a step, and another from then on ("STEP RETURN"), in episodes of 10 steps."""
    at, height = map(float, course.split())
    for steps in itertools.count(10, 10):
        own = height if steps > at else 0.0
        run.report(own + 0.1 * run.seed, length=10, custom_metrics={"energy": energy})


def search(storage: str | None, metric: Any = METRICS[:2], **fields: Any) -> Any:
    given = {"course": ["300 10", "500 12", "800 11"], **fields.pop("space", {})}
    fields = {"sampler": "grid", "study_name": "several", **QUICK, **fields}
    return finder.tune(learns, "CartPole-v1", given, env_steps=1_000, metric=metric, storage=storage, **fields)


def test_the_result_is_a_pareto_front_in_optuna_too(tmp_path: Path) -> None:
    storage = str(tmp_path / "some.db")
    found = search(storage)
    with found.study as study:
        raw = study.study
        assert [each.name for each in raw.directions] == ["MAXIMIZE", "MINIMIZE"]
        by_course = {trial.params["course"]: trial.values for trial in raw.trials}
        # The return over the last part: with 0.1 for seed 1. The mean of 20 episodes reaches 3 with 6, 5 and 6 of them.
        assert by_course["300 10"] == pytest.approx([10.05, 360.0])
        assert by_course["500 12"] == pytest.approx([12.05, 550.0])
        assert by_course["800 11"] == pytest.approx([11.05, 860.0])
        front = found.front
        assert front == pareto_front(study)
        assert [trial.params["course"] for trial in front.front] == ["500 12", "300 10"]
        assert {trial.number for trial in front.front} == {trial.number for trial in raw.best_trials}
        assert [each.n_seeds for each in front.front[0].values] == [2, 2]
        assert repr(front) == str(front)
        head, _, first, second = str(front).splitlines()
        assert head.startswith("Pareto front of ")
        assert [line.partition("  ")[0] for line in (first, second)] == [f"#{each.number}" for each in front.front]
        assert first.endswith("course 500 12")
        assert front.lines[0] == (
            "Pareto front of return and environment steps to a return of 3: 2 of 3 complete trials are on it"
        )
        assert "several objectives (return, steps-to:3)" in why_no_pick(study)
        assert "in Python studies.best(study.by_objective('return'))" in why_no_pick(study)
        assert conclusion(study).status == "front"
        assert why_no_pick(study.by_objective("steps-to:3")) == ""
        assert best(study.by_objective("steps-to:3")).params["course"] == "300 10"
        assert best(study.by_objective("return")).value == pytest.approx(12.05)
        assert best(study, 2).trial == 2
        assert best(study, np.int64(2)).trial == 2  # type: ignore[arg-type]  # from a table of trials
        for wrong in ("1", True, 1.5):
            with pytest.raises(StudyError, match=r"trial is .*: give the number of a complete trial"):
                best(study, wrong)  # type: ignore[arg-type]
        with pytest.raises(StudyError, match=r"no objective 'auc'. .*steps-to:3"):
            study.by_objective("auc")
        with pytest.raises(StudyError, match="no complete trial 9: complete are 0, 1, 2"):
            best(study, 9)


def test_objective_is_found_by_the_name_that_tables_show() -> None:
    metrics = ("return", "custom:error:minimize")
    spec = StudySpec(
        name="two", agents=("ppo",), env="CartPole-v1", env_steps=100, n_trials=1, metrics=metrics,
        params={"learning_rate": [1e-3]}, storage="memory",
    )  # fmt: skip
    with open_study(spec) as study:
        for name in ("error", "custom:error", "custom:error:minimize"):
            if name == "custom:error":  # its direction is another one
                with pytest.raises(StudyError, match="Did you mean 'custom:error:minimize'"):
                    study.by_objective(name)
            else:
                assert study.by_objective(name).objective == "custom:error:minimize"
        with pytest.raises(StudyError, match=r"no objective 'eror'. .*Allowed: custom:error:minimize, return"):
            study.by_objective("eror")
    with open_study(spec.model_copy(update={"metrics": ("custom:return", "return")})) as study:
        assert study.by_objective("return").objective == "return"


def test_objective_that_tells_nothing_is_named() -> None:
    found = search(None, ["return", "steps-to:100"])
    [reason] = conclusion(found.study).reasons
    assert reason.text == (
        "environment steps to a return of 100 tells nothing about the trials: no run reached a return of 100 within "
        "1,000 environment steps: give a lower threshold, or give each run more environment steps; the front is that "
        "of return alone"
    )
    assert reason.text[1:] in explain(found.study)
    assert reason.text[1:] in report_html(found.study)
    assert conclusion(search(None).study).reasons == ()


@pytest.mark.slow
def test_reports_lists_and_dashboards_show_it(tmp_path: Path) -> None:
    storage = str(tmp_path / "some.db")
    found = search(storage)
    assert "2 of 3 complete trials are on it" in str(found)
    assert not found.best
    columns = {name for metric in METRICS[:2] for name in (metric, f"{metric} spread")}
    assert columns <= set(found.table().columns)
    assert not {"value", "spread"} & set(found.table().columns)
    with found.study as study:
        page = report_html(study)
        assert "finder-pareto-front" in page
        assert "<h2>Pareto front</h2>" in page
        figure = plot_pareto_front(study)
        assert [trace.name for trace in figure.data] == ["front", "other trials", "on the front"]
        assert list(figure.data[0].x) == pytest.approx([10.05, 12.05])
        assert list(figure.data[0].y) == [360, 550]
        shown = DashboardStorage(study.storage.optuna)
        assert [len(trial.values) for trial in shown.get_all_trials(study.study._study_id)] == [2, 2, 2]
    [listed] = list_studies(storage)
    assert (listed.n_ended, listed.best_value) == (3, None)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "nsgaii", "random"])
def test_three_objectives_with_a_sampler_resume(tmp_path: Path, sampler: str) -> None:
    storage = str(tmp_path / "some.db")
    space = {"energy": "1.0:4.0"}
    search(storage, METRICS, sampler=sampler, n_trials=4, space=space).close()
    found = search(storage, METRICS, sampler=sampler, n_trials=12, space=space)
    assert [len(trial.values) for trial in found.study.study.trials] == [3] * 12
    assert len(plot_pareto_front(found.study).data) >= 3
    numbers = {trial.number for trial in pareto_front(found.study).front}
    assert numbers == {trial.number for trial in found.study.study.best_trials}
    found.close()
    loaded = load_study("several", storage)
    assert loaded.spec.metrics == tuple(METRICS)
    loaded.close()


def test_a_trial_without_one_of_its_objectives_fails() -> None:
    found = search(None, ["return", "custom:speed"])
    assert {trial.state.name for trial in found.study.trials()} == {"FAIL"}
    assert "No episode reported the metric 'speed'" in found.study.trials()[0].user_attrs["reason"]


@pytest.mark.slow
def test_a_misspelled_second_objective_is_found_early() -> None:
    found = finder.tune(
        "ppo", "CartPole-v1", {"learning_rate": "1e-4:1e-2"}, env_steps=100_000, metric=["return", "custom:typo"],
        n_trials=1, fixed=SMALL_PPO, storage=None, **QUICK,
    )  # fmt: skip
    [trial] = found.study.trials()
    assert "No episode reported the metric 'typo'" in trial.user_attrs["reason"]
    assert trial.user_attrs["env_steps"] < 20_000
    found.close()


def test_a_study_with_one_metric_has_no_front() -> None:
    with pytest.raises(StudyError, match="has one metric, return"):
        _ = search(None, "return", confirm=0).front


def test_rates_and_optimizers_are_picked_by_one_metric() -> None:
    with pytest.raises(StudyError, match="finder lr picks by one"):
        finder.LRFinder("ppo", "CartPole-v1").grid(rates=[1e-3, 1e-2], metric=["return", "auc"], **QUICK)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="metric is empty"):
        search(None, [])


@pytest.mark.slow
def test_agents_are_compared_by_greedy_returns_and_steps(tmp_path: Path) -> None:
    """The objectives of agents: their greedy returns, and the returns while they learn."""
    found = finder.tune(
        "ppo", "CartPole-v1", {"learning_rate": [1e-9, 1e-2]}, env_steps=400, metric=["greedy-return:2", "auc"],
        sampler="grid", fixed=SMALL_PPO, storage=str(tmp_path / "some.db"), study_name="both", n_reports=4,
        **{**QUICK, "executor": "population"},
    )  # fmt: skip
    for trial in found.study.study.trials:
        seeds = trial.user_attrs["objectives"]
        assert trial.values == pytest.approx([sum(seeds[name].values()) / 2 for name in ("greedy-return:2", "auc")])
        assert len(trial.intermediate_values) == 4  # those of the first objective
    assert found.study.spec.metrics == ("greedy-return:2", "auc")
    found.close()
