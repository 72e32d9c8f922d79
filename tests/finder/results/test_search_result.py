"""Tests of search results: printed summary, table and notebook view."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from finder.results.export import export
from finder.results.search_result import SearchResult
from studies.errors import StudyError
from studies.figures.pareto import plot_pareto_front
from studies.judging.pareto_front import pareto_front
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import open_storage
from studies.study.study import OpenStudy

RATES = (1e-4, 1e-3, 1e-2)


@pytest.fixture
def study() -> Iterator[OpenStudy]:
    """A study with two complete trials and a failed one."""
    spec = StudySpec(
        name="lr-ppo-CartPole-v1",
        storage="memory",
        kind="lr",
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=1000,
        seeds=(0, 1),
        params={},
        trials=tuple({"learning_rate": rate} for rate in RATES),
        pruner="none",
    )
    with open_storage("memory") as storage:
        opened = open_study(spec, storage)
        with Recorder(opened) as recorder:
            for seeds in ({0: 20.0, 1: 22.0}, {0: 485.8234567, 1: 501.4358024}, None):
                ask = recorder.ask()
                assert ask is not None
                if seeds is None:
                    recorder.failed(ask.number, "the loss became nan\nTraceback", "", {"wall_seconds": 1.25})
                else:
                    extra = {"wall_seconds": 12.345, "env_steps": 1000}
                    recorder.completed(ask.number, sum(seeds.values()) / 2, seeds, extra)
        yield opened


def test_result_prints_the_pick_and_the_states_of_the_trials(study: OpenStudy):
    first, second, third, fourth, *rest = repr(SearchResult(study)).splitlines()
    assert first.startswith("learning_rate 1e-3; the best rate lies between ")
    assert second == "return 494 ± 11 in the search, over 2 seeds; expected -120 to 590 (95%)"
    assert third.startswith("not safe: ")
    assert fourth == "lr-ppo-CartPole-v1: 3 trials, 2 complete, 0 pruned, 1 failed, in memory"
    assert not rest  # no call can continue a study in memory
    assert repr(SearchResult(study, "three failures")).endswith("stopped: three failures")


def test_result_without_a_pick_prints_the_reason(study: OpenStudy):
    with open_storage("memory") as storage:
        empty = SearchResult(open_study(study.spec, storage))
        assert repr(empty).splitlines()[1].startswith("no pick: no trial is complete")


def test_missing_pick_is_false_and_has_a_reason(study: OpenStudy):
    with open_storage("memory") as storage:
        found = SearchResult(open_study(study.spec, storage)).best
        assert not found
        assert found.reason.startswith("no trial is complete")
        assert repr(found) == f"no pick: {found.reason}"
        with pytest.raises(
            StudyError, match="has no pick: no trial is complete"
        ):  # for scripts written for earlier versions
            _ = found.params["learning_rate"]
        assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    assert SearchResult(study).best


@pytest.mark.parametrize("read", [pareto_front, plot_pareto_front, lambda study: SearchResult(study).front])
def test_a_study_with_one_metric_has_no_pareto_front(study: OpenStudy, read: Any):
    with pytest.raises(StudyError, match="the study 'lr-ppo-CartPole-v1' has one metric, return: its pick is `best`"):
        read(study)


def test_the_result_of_a_deleted_study_tells_that_it_was_deleted(study: OpenStudy, tmp_path: Path):
    result = SearchResult(study)
    study.storage.optuna.delete_study(study.study._study_id)
    file = tmp_path / "file"
    for read in (
        lambda: result.best,
        lambda: repr(result),
        result.table,
        result.plot,
        lambda: result.report(str(file)),
        lambda: export(study, f"{file}.csv"),
        lambda: export(study, f"{file}.csv", episodes=True),
    ):
        with pytest.raises(StudyError, match="no study 'lr-ppo-CartPole-v1' in memory any more: it was deleted"):
            read()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_open_studies_cannot_be_pickled_or_copied(study: OpenStudy, copied: Any):
    for each in (study, SearchResult(study)):
        with pytest.raises(TypeError, match=r"result\.table\(\); the study is opened again by studies\.load_study"):
            copied(each)


def test_export_causes_no_warning_of_pandas(study: OpenStudy, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(study, tmp_path / "trials.csv")


def test_table_marks_the_pick(study: OpenStudy):
    table = SearchResult(study).table()
    assert list(table["pick"]) == [False, True, False]
    assert repr(table).splitlines()[2].split()[:2] == ["pick", "1"]
    assert repr(table).splitlines()[1].split()[0] == "0"
    with open_storage("memory") as storage:
        opened = open_study(study.spec, storage)
        with Recorder(opened) as recorder:
            ask = recorder.ask()
            assert ask is not None
            recorder.failed(ask.number, "broken", "")
        assert list(SearchResult(opened).table()["pick"]) == [False]


def test_table_prints_every_column_with_significant_digits(study: OpenStudy):
    table = SearchResult(study).table()
    header, *rows = repr(table).splitlines()
    assert header.split() == [
        "pick", "trial", "learning_rate", "value", "spread", "n_seeds", "state", "env_steps", "wall_seconds",
        "failure", "reason",
    ]  # fmt: skip
    assert rows[1].split() == ["pick", "1", "1e-3", "493.6", "11", "2", "COMPLETE", "1,000", "12.3"]
    assert rows[2].split() == ["2", "1e-2", "0", "FAIL", "1.2", "error", "the", "loss", "became", "nan"]
    assert table["value"][1] == pytest.approx(493.62962955)  # the table keeps full precision
    assert "..." not in repr(table[["trial", "value"]])


def test_notebook_view_shows_summary_and_table(study: OpenStudy):
    shown = SearchResult(study)._repr_html_()
    assert shown.startswith("<pre>learning_rate 1e-3; the best rate lies between ")
    assert "return 494 ± 11 in the search" in shown
    assert "<table" in shown


def test_spreads_of_large_values_are_written_as_the_values_are(study: OpenStudy):
    table = SearchResult(study).table()
    large = table.assign(value=2_725_499.0, spread=[1_040_000.0, 760_000.0, 0.0123])[["value", "spread"]]
    assert [line.split()[-1] for line in repr(large).splitlines()[1:]] == ["1,000,000", "760,000", "0.012"]


def test_derived_tables_print_the_labels_of_their_rows(study: OpenStudy):
    table = SearchResult(study).table()
    by_state = repr(table.groupby("state")[["value"]].mean()).splitlines()
    assert [line.split() for line in by_state[2:]] == [["COMPLETE", "257.3"], ["FAIL"]]
    assert "<th>COMPLETE</th>" in table.groupby("state")[["value"]].mean()._repr_html_()
    by_number = repr(table.set_index("trial")[["value"]]).splitlines()
    assert [line.split()[0] for line in by_number[2:]] == ["0", "1", "2"]
    assert repr(table[["value", "spread"]].T).splitlines()[1].startswith("value")
    kept = table[table["value"] > 100][["trial", "value"]]
    assert [line.split() for line in repr(kept).splitlines()] == [["trial", "value"], ["1", "493.6"]]
