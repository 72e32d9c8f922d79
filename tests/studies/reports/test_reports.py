"""Figures and HTML reports of studies."""

from __future__ import annotations

import errno
import html
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from studies.analysis.conclusion import conclusion, pick_json
from studies.analysis.recommendation import best
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.figures.figures import study_figures
from studies.figures.importances import importances_data
from studies.figures.parallel_coordinates import parallel_coordinates_data
from studies.figures.ranking import ranking
from studies.figures.theme import add_failed, annotate_rate, log_axis, new_figure, thin
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports import (
    learning_curves_data,
    learning_rate_data,
    optimizers_data,
    plot_learning_curves,
    plot_learning_rate,
    plot_optimizers,
    plot_trials,
    states_data,
    write_report,
)
from studies.reports.explanation import explain
from studies.reports.html import report_html
from studies.reports.page import write_page
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy
from studies.words import failure_word, over_seeds_text

Make = Callable[..., StudySpec]

ROWS = [
    {"optimizer": "adam", "learning_rate": 1e-4},
    {"optimizer": "adam", "learning_rate": 1e-3},
    {"optimizer": "sgd", "learning_rate": 1e-1},
    {"optimizer": "sgd", "learning_rate": 1e-2},
    {"optimizer": "sgd", "learning_rate": 1e-4},
]


def curve(final: float, seed: int) -> list[EpisodeRecord]:
    """Return ten episodes of 100 steps whose returns grow linearly to `final`."""
    return [
        EpisodeRecord(
            seed=seed, episode=n, env_steps=100 * (n + 1), episode_return=final * (n + 1) / 10,
            length=100, loss=1.0, wall_seconds=float(n),
        )
        for n in range(10)
    ]  # fmt: skip


@pytest.fixture
def study(storage: StudyStorage, make_spec: Make) -> OpenStudy:
    """adam 1e-4: 10 (8, 12); adam 1e-3: 50 (40, 60); sgd 1e-1 failed; sgd 1e-2 pruned at 5; sgd 1e-4: 20 (20, 20)."""
    opened = open_study(make_spec(name="ppo <script>alert(1)</script>", params={}, trials=ROWS, kind="opt"), storage)
    with Recorder(opened) as recorder:
        for outcome in ({0: 8.0, 1: 12.0}, {0: 40.0, 1: 60.0}, "fail", "prune", {0: 20.0, 1: 20.0}):
            ask = recorder.ask()
            assert ask is not None
            recorder.started(ask.number, {"agent": "ppo", "env": "CartPole-v1", "config": {"gamma": 0.99}})
            if outcome == "fail":
                recorder.failed(ask.number, "loss became <nan>", "Traceback </pre><script>alert(2)</script>")
            elif outcome == "prune":
                recorder.report(ask.number, 500, 5.0)
                recorder.pruned(ask.number, 500, 5.0)
            else:
                assert isinstance(outcome, dict)
                for seed, final in outcome.items():
                    recorder.episodes(ask.number, curve(final, seed))
                recorder.report(ask.number, 500, 1.0)
                recorder.completed(ask.number, sum(outcome.values()) / 2, outcome)
    return opened


@pytest.fixture
def empty(storage: StudyStorage, make_spec: Make) -> OpenStudy:
    return open_study(make_spec(name="empty"), storage)


def test_learning_rate_data_has_points_pruned_failed_and_pick(study: OpenStudy) -> None:
    data = learning_rate_data(study)
    assert (data.param, data.metric, data.connected) == ("learning_rate", "return", True)
    adam, sgd = data.lines
    assert adam.label == "adam"
    assert [(p.rate, p.mean, p.low, p.high, p.n_seeds, p.number) for p in adam.points] == [
        (1e-4, 10.0, 8.0, 12.0, 2, 0),
        (1e-3, 50.0, 40.0, 60.0, 2, 1),
    ]
    assert [(p.rate, p.mean) for p in sgd.points] == [(1e-4, 20.0)]
    assert [(p.rate, p.value, p.number) for p in data.pruned] == [(1e-2, 5.0, 3)]
    assert [(p.rate, p.number, p.reason) for p in data.failed] == [(1e-1, 2, "loss became <nan>")]
    assert math.isnan(data.failed[0].value)
    assert data.pick is not None
    assert (data.pick.rate, data.pick_label) == (1e-3, "adam")


def test_learning_rate_of_several_optimizers_in_one_agent(storage: StudyStorage, make_spec: Make) -> None:
    params = {"actor.learning_rate": "1e-5:1e-1:log", "critic.learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.99"}
    opened = open_study(make_spec(params=params), storage)
    with Recorder(opened) as recorder:
        recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
    assert learning_rate_data(opened).param == "actor.learning_rate"
    assert not learning_rate_data(opened, "critic.learning_rate").connected  # the trials differ in other parameters too
    with pytest.raises(StudyError, match=r"'critc.learning_rate'.*'critic.learning_rate'"):
        plot_learning_rate(opened, "critc.learning_rate")
    fixed = open_study(make_spec(name="fixed", params={"learning_rate": 0.1, "gamma": "0.9:0.99"}), storage)
    assert "finder-learning-rate" not in study_figures(fixed)  # a single rate has no curve
    assert list(study_figures(opened))[:2] == ["finder-learning-rate-actor", "finder-learning-rate-critic"]


def test_learning_rate_figure_has_log_axis_and_pick(study: OpenStudy) -> None:
    figure = plot_learning_rate(study)
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.xaxis.ticktext) == ["1e-4", "1e-3", "1e-2", "1e-1"]
    names = [trace.name for trace in figure.data if trace.showlegend is not False]
    band = "band: worst to best seed"
    assert names == ["adam", "sgd", "pruned (value when stopped)", "the pick, in the search", band]
    assert figure.layout.shapes[0].x0 == 1e-3
    # Annotations on a logarithmic axis take the exponent; shapes and traces take the value.
    assert figure.layout.annotations[0].x == pytest.approx(-3)
    assert "pick: adam at 1e-3" in figure.layout.annotations[0].text
    assert figure.layout.yaxis.title.text == "return in the search<br>mean over 3 seeds"
    band = [trace for trace in figure.data if trace.fill == "tonexty"]
    assert list(band[0].y) == [8.0, 40.0]


@pytest.mark.parametrize("apart", [40.0, 1.0])
def test_interval_of_the_rate_is_shaded_where_the_text_has_one(
    apart: float, storage: StudyStorage, make_spec: Make
) -> None:
    rows = [{"learning_rate": 10.0**exponent} for exponent in (-5, -4, -3, -2, -1)]
    opened = open_study(make_spec(params={}, trials=rows, kind="lr", seeds=(0, 1, 2)), storage)
    with Recorder(opened) as recorder:
        for distance in (2, 1, 0, 1, 2):
            ask = recorder.ask()
            assert ask is not None
            values = {seed: 100.0 - apart * distance + noise for seed, noise in enumerate((-4.0, 0.0, 4.0))}
            recorder.completed(ask.number, 100.0 - apart * distance, values)
    shaded = "95%: the best rate" in [trace.name for trace in plot_learning_rate(opened).data]
    has_text = "the best rate lies between" in conclusion(opened).pick
    assert (shaded, has_text) == ((True, True) if apart > 1 else (False, False))


def test_learning_curves_are_sorted_and_averaged_over_seeds(study: OpenStudy) -> None:
    data = learning_curves_data(study)
    assert [shown.number for shown in data.curves] == [1, 4, 0, 3]
    pick = data.curves[0]
    assert pick.label == "#1 optimizer adam, learning_rate 1e-3"
    assert (pick.steps[0], pick.steps[-1], pick.n_seeds) == (100, 1000, 2)
    assert len(pick.steps) <= 400
    assert (pick.mean[-1], pick.low[-1], pick.high[-1]) == (50.0, 40.0, 60.0)
    at_500 = pick.steps.index(min(pick.steps, key=lambda step: abs(step - 502)))
    assert pick.mean[at_500] == pytest.approx(25.0)  # the episode that ends at 500 has half of the final return
    assert (data.curves[3].steps, data.curves[3].mean) == (
        [500.0],
        [5.0],
    )  # without episodes the curve consists of the reports
    few = learning_curves_data(study, max_curves=1)
    assert [shown.number for shown in few.curves] == [1]
    assert [shown.number for shown in few.others] == [4, 0, 3]


def test_labels_of_curves_leave_out_what_all_have_in_common(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"learning_rate": rate, "gamma": 0.9, "optimizer": "adam"} for rate in (1e-3, 1e-2)]
    opened = open_study(make_spec(trials=rows, params={}), storage)
    with Recorder(opened) as recorder:
        for value in (1.0, 2.0):
            number = recorder.ask().number  # type: ignore[union-attr]
            recorder.report(number, 500, value)
            recorder.completed(number, value)
    assert [curve.label for curve in learning_curves_data(opened).curves] == [
        "#1 learning_rate 1e-2", "#0 learning_rate 1e-3"
    ]  # fmt: skip


def test_curve_holds_the_last_return_between_episodes(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(env_steps=1000), storage)  # windows of 50 steps
    with Recorder(opened) as recorder:
        number = recorder.ask().number  # type: ignore[union-attr]
        ends = {100: 1.0, 600: 5.0, 620: 7.0, 1000: 3.0}
        recorder.episodes(
            number,
            [
                EpisodeRecord(
                    seed=0, episode=index, env_steps=end, episode_return=value, length=9, loss=None, wall_seconds=0.0
                )
                for index, (end, value) in enumerate(ends.items())
            ],
        )
        recorder.completed(number, 1.0)
    (only,) = learning_curves_data(opened).curves
    at = dict(zip(only.steps, only.mean, strict=True))
    assert at[100] == 1.0
    assert {mean for step, mean in at.items() if step < 600} == {1.0}
    assert {mean for step, mean in at.items() if 620 <= step < 650} == {
        6.0
    }  # both episodes end within the preceding 50 steps
    assert {mean for step, mean in at.items() if 670 <= step < 1000} == {7.0}
    assert at[1000] == 3.0


@pytest.mark.slow
def test_long_curves_are_thinned(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(env_steps=100_000, n_reports=1000), storage)
    with Recorder(opened) as recorder:
        number = recorder.ask().number  # type: ignore[union-attr]
        recorder.episodes(
            number,
            [
                EpisodeRecord(
                    seed=0, episode=n, env_steps=n + 1, episode_return=1.0, length=1, loss=None, wall_seconds=0.0
                )
                for n in range(20_000)
            ],
        )
        recorder.completed(number, 1.0)
    (only,) = learning_curves_data(opened).curves
    assert len(only.steps) <= 400
    assert set(only.mean) == {1.0}


@pytest.mark.slow
def test_scatter_plots_of_many_points_are_thinned(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.figures.figures.MOST_POINTS_OF_A_CARD", 4)
    opened = open_study(make_spec(n_trials=10), storage)
    with Recorder(opened) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.completed(ask.number, float(ask.number), {0: float(ask.number), 1: ask.number + 1.0})
    figures = study_figures(opened, compact=True)
    clouds = {trace.name: trace for trace in figures["finder-trials"].data}
    assert list(clouds["complete"].x) == [0, 3, 6, 9]
    assert list(clouds["complete"].y) == [0, 3, 6, 9]
    assert [text.partition(" ")[0] for text in clouds["complete"].text] == ["#0", "#3", "#6", "#9"]
    assert "Trials in order</b> (4 of 10 shown)" in figures["finder-trials"].layout.title.text
    rates = figures["finder-learning-rate"].data
    assert {len(trace.x) for trace in rates if trace.x is not None and len(trace.x) > 1} == {4}
    whole = study_figures(opened)["finder-trials"]
    assert [len(trace.x) for trace in whole.data] == [10, 10]
    assert "shown" not in whole.layout.title.text


def test_metric_loss_draws_losses(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(metric="loss"), storage)
    with Recorder(opened) as recorder:
        number = recorder.ask().number  # type: ignore[union-attr]
        recorder.episodes(number, curve(100.0, 0))
        recorder.completed(number, 1.0)
    assert set(learning_curves_data(opened).curves[0].mean) == {1.0}
    assert "loss" in plot_learning_curves(opened).layout.yaxis.title.text


def test_axes_say_where_lower_values_are_better_and_curves_how_many_are_left_out(
    storage: StudyStorage, make_spec: Make
) -> None:
    opened = open_study(make_spec(metric="custom:energy:minimize", n_trials=3), storage)
    with Recorder(opened) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.episodes(ask.number, curve(20.0, 0))
            recorder.completed(ask.number, 5.0 + ask.number, {0: 5.0 + ask.number})
    title = plot_trials(opened).layout.yaxis.title.text
    assert title.startswith("energy in the search, lower is better<br>")
    assert plot_learning_curves(opened, max_curves=2).layout.title.text.endswith(" (2 of 3 trials)")
    assert learning_curves_data(opened, max_curves=2).n_others == 1


def test_optimizers_are_compared_at_their_best_trials(study: OpenStudy) -> None:
    data = optimizers_data(study)
    assert data.grouped
    assert [(row.label, row.settings, row.best.value, row.n_trials) for row in data.rows] == [
        ("adam", "at 1e-3", 50.0, 2),
        ("sgd", "at 1e-4", 20.0, 1),
    ]
    figure = plot_optimizers(study)
    low, high = figure.layout.xaxis.range
    assert low < 20.0
    assert high > 50.0 + math.sqrt(200)


def test_ranking_without_searched_optimizer_lists_trials(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for value in (1.0, 3.0, 2.0):
            recorder.completed(recorder.ask().number, value)  # type: ignore[union-attr]
    data = optimizers_data(opened, max_rows=2)
    assert not data.grouped
    assert [row.label for row in data.rows] == ["#1", "#2"]


def test_states_data_has_states_reasons_and_best_so_far(study: OpenStudy) -> None:
    data = states_data(study)
    assert [row.state for row in data.trials] == ["COMPLETE", "COMPLETE", "FAIL", "PRUNED", "COMPLETE"]
    assert data.best_so_far == ((0, 10.0), (1, 50.0), (4, 50.0))
    assert data.of("FAIL")[0].reason == "loss became <nan>"
    assert [trace.name for trace in plot_trials(study).data] == [
        "best so far", "complete", "pruned (value when stopped)", "failed",
    ]  # fmt: skip


@pytest.mark.parametrize("read", [states_data, importances_data, parallel_coordinates_data])
def test_search_space_is_not_inferred_for_each_trial(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch, read: Callable[[OpenStudy], object]
) -> None:
    inferred, calls = StudySpec.search_space, []
    monkeypatch.setattr(StudySpec, "search_space", lambda spec: calls.append(spec) or inferred(spec))
    counts = []
    for n_pruned in (1, 4):
        rows = [{"learning_rate": 10.0**-power, "gamma": 0.9 + power / 100} for power in range(1, 2 + n_pruned)]
        opened = open_study(make_spec(name=f"{n_pruned} pruned", params={}, trials=rows, seeds=(0,)), storage)
        with Recorder(opened) as recorder:
            recorder.completed(recorder.ask().number, 1.0, {0: 1.0})  # type: ignore[union-attr]
            while (ask := recorder.ask()) is not None:
                recorder.pruned(ask.number, 500, 0.5)
        calls.clear()
        read(opened)
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0


def test_range_tests_are_drawn_with_their_suggestion(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(kind="range-test", params={}, n_trials=2, metric="loss"), storage)
    with Recorder(opened) as recorder:
        test = {"optimizer": "actor", "metric": "loss", "rates": [1e-5, 1e-3, 1e-1], "values": [2.0, 1.0, None]}
        recorder.completed(
            recorder.ask().number,
            1.0,
            None,
            {"range_test": {**test, "suggestion": 1e-3, "rule": "steepest"}},  # type: ignore[union-attr]
        )
        assert "1e-3 (steepest)" in explain(opened)
        recorder.completed(
            recorder.ask().number,
            1.0,
            None,
            {"range_test": {**test, "suggestion": None, "rule": "steepest"}},  # type: ignore[union-attr]
        )
    data = learning_rate_data(opened)
    assert [each.label for each in data.range_tests] == ["actor #0", "actor #1"]
    assert math.isnan(data.range_tests[0].values[2])
    assert list(study_figures(opened)) == ["finder-range-test"]
    figure = plot_learning_rate(opened)
    assert len(figure.layout.shapes) == 1
    assert "suggestion (steepest): 1e-3" in figure.layout.annotations[0].text
    page = report_html(opened)
    assert "Complete trials" not in page
    assert html.escape('"actor.learning_rate": 0.001') in page  # the usage section has the suggested rate


def test_range_test_without_suggestion_is_stated(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(kind="range-test", params={}, n_trials=1), storage)
    test = {"rates": [1e-3, 1e-2], "values": [1.0, 2.0], "suggestion": None}
    opened.study.set_user_attr("range_test", test)
    with Recorder(opened) as recorder:
        recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
    assert "no safe suggestion" in explain(opened)
    assert "no safe suggestion" in plot_learning_rate(opened).layout.annotations[0].text


def test_empty_study_has_figures_with_a_notice(empty: OpenStudy) -> None:
    for figure in study_figures(empty).values():
        assert figure.layout.annotations[0].text.startswith("No trial")
    assert explain(empty) == "Of 0 trials, 0 complete, 0 pruned, 0 failed."
    assert "no trial is complete" in report_html(empty)
    assert "How to use it" not in report_html(empty)


def test_conclusion_and_explanation_state_pick_value_and_trials(study: OpenStudy) -> None:
    text, found = explain(study), conclusion(study)
    assert found.pick.startswith("optimizer adam, learning_rate 1e-3")
    assert found.value.startswith("return 50 ± 14 in the search, over 2 seeds")
    assert "its value is the mean return on CartPole-v1 over the last part of training" in text
    assert "training, 1,000 environment steps each" in text
    assert "Of 5 trials, 3 complete, 1 pruned, 1 failed." in text
    assert "runner-up" not in text
    assert "slightly optimistic" in text


def test_study_without_effect_marks_no_pick(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for _ in range(3):
            number = recorder.ask().number  # type: ignore[union-attr]
            recorder.episodes(number, curve(20.0, 0))
            recorder.completed(number, 20.0, {0: 20.0})
    assert conclusion(opened).pick == "no pick for ppo on CartPole-v1"
    assert conclusion(opened).certainty.startswith("all trials gave exactly the same")
    assert ranking(opened).pick is None
    page = report_html(opened)
    assert "class=pick" not in page
    assert "How to use it" not in page
    for name, figure in study_figures(opened).items():
        assert "pick" not in figure.to_json(), name


class TestPickThatIsNotHighInTheSearch:
    @pytest.fixture(params=["learning_rate", "optimizer"])
    def low(self, request: pytest.FixtureRequest, storage: StudyStorage, make_spec: Make) -> OpenStudy:
        """Four trials of one seed, of which the last is the best by the further runs of all four."""
        values: tuple[Any, ...] = {
            "learning_rate": (1e-4, 1e-3, 1e-2, 1e-1),
            "optimizer": ("adam", "lion", "rmsprop", "sgd"),
        }[request.param]
        rows = [{request.param: value, "gamma": 0.9 + n / 100} for n, value in enumerate(values)]
        opened = open_study(make_spec(params={}, trials=rows, seeds=(0,), confirm=4, confirm_seeds=2), storage)
        with Recorder(opened) as recorder:
            while (ask := recorder.ask()) is not None:
                recorder.report(ask.number, 500, 4.0 - ask.number)
                recorder.completed(ask.number, 4.0 - ask.number, {0: 4.0 - ask.number})
            while (ask := recorder.ask_confirmation()) is not None:
                worth = 9.0 if ask.confirms == 3 else 1.0
                recorder.completed(ask.number, worth, dict.fromkeys(ask.seeds, worth))
        return opened

    def test_its_curve_is_the_first(self, low: OpenStudy) -> None:
        data = learning_curves_data(low, max_curves=2)
        assert data.pick == 3
        assert [shown.number for shown in data.curves] == [3, 0]
        assert [shown.number for shown in data.others] == [1, 2]

    def test_its_row_follows_the_best_with_its_place(self, low: OpenStudy) -> None:
        rows = optimizers_data(low, max_rows=2).rows
        assert [(row.best.number, row.place, row.is_pick) for row in rows] == [
            (0, 1, False), (1, 2, False), (3, 4, True),
        ]  # fmt: skip
        names = plot_optimizers(low, max_rows=2).layout.yaxis.ticktext
        assert ["(place 4)" in name for name in names] == [False, False, True]
        assert [row.place for row in optimizers_data(low).rows] == [1, 2, 3, 4]

    def test_its_line_is_drawn(self, low: OpenStudy) -> None:
        data = parallel_coordinates_data(low, max_lines=2)
        assert [line.number for line in data.lines] == [0, 1, 3]
        assert data.n_lines_left_out == 1

    def test_it_is_in_the_table_with_its_place(self, low: OpenStudy, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("studies.reports.html._TABLE_ROWS", 2)
        _, found, table = report_html(low).partition("<h2>The best 2 of 4 complete trials in the search and the pick<")
        assert found
        rows = re.findall(r'<tr( class=pick)?><td class="number">(\d)</td><td class="number">#(\d)</td>', table)
        assert rows == [("", "1", "0"), ("", "2", "1"), (" class=pick", "4", "3")]


class TestFailedTrials:
    @pytest.fixture
    def failed(self, storage: StudyStorage, make_spec: Make) -> OpenStudy:
        """Two failed trials, the first after some episodes."""
        opened = open_study(make_spec(trials=[{"learning_rate": 1e-3}, {"learning_rate": 1e-2}], params={}), storage)
        with Recorder(opened) as recorder:
            first, second = recorder.ask(), recorder.ask()
            assert first is not None
            assert second is not None
            recorder.episodes(first.number, curve(30.0, 0))
            recorder.failed(first.number, "it fell off the table")
            recorder.failed(second.number, "it never began")
        return opened

    def test_episodes_of_failed_trials_are_drawn(self, failed: OpenStudy) -> None:
        (only,) = learning_curves_data(failed).curves
        assert only.label == "#0 learning_rate 1e-3 (failed)"
        assert only.mean[-1] == 30.0

    @pytest.mark.parametrize("plot", [plot_trials, plot_learning_rate])
    def test_failed_trials_are_drawn_on_an_axis_below_the_values(
        self, failed: OpenStudy, study: OpenStudy, plot: Callable[[OpenStudy], Any]
    ) -> None:
        for opened, n_failed in ((failed, 2), (study, 1)):
            figure = plot(opened)
            (crosses,) = [trace for trace in figure.data if trace.name == "failed"]
            assert crosses.yaxis == "y2"
            assert len(crosses.x) == n_failed
            assert list(figure.layout.yaxis2.ticktext) == ["failed"]
            assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]
        assert "Every trial that has ended failed." in plot(failed).to_json()


class TestHtml:
    def test_report_is_one_file_without_external_resources(self, study: OpenStudy, tmp_path: Path) -> None:
        path = write_report(study, tmp_path / "report.html")
        text = path.read_text()
        assert text.count("plotly.js v") == 1
        assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
        assert "default-src 'none'" in text
        assert 'name="viewport"' in text
        assert [each.name for each in tmp_path.glob("*report*")] == ["report.html"]  # no temporary file is left

    def test_text_of_the_study_is_escaped(self, study: OpenStudy) -> None:
        text = report_html(study)
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "Traceback &lt;/pre&gt;&lt;script&gt;alert(2)" in text
        assert "loss became &lt;nan&gt;" in text

    def test_figures_are_complete_json(self, study: OpenStudy) -> None:
        found = re.findall(r'<script type="application/json" data-figure="([^"]+)">(.*?)</script>', report_html(study))
        assert [name for name, _ in found] == [
            "finder-learning-rate", "finder-ranking", "finder-importances", "finder-parallel-coordinates",
            "finder-learning-curves", "finder-trials",
        ]  # fmt: skip
        for name, data in found:
            figure = json.loads(data)
            assert figure["data"] or "Not enough data yet" in figure["layout"]["annotations"][0]["text"], name
            assert "<" not in data  # a label must not end the script element

    def test_conclusion_is_at_the_top(self, study: OpenStudy) -> None:
        text = report_html(study)
        status, found = conclusion(study).status.replace(" ", "-"), conclusion(study)
        first = text.index(f'<div class="answer {status}">')
        assert first < text.index('<p class="detail">')
        places = [text.index(html.escape(line), first) for line in (found.pick, found.value, found.certainty)]
        assert places == sorted(places)

    def test_remedy_is_below_the_conclusion(self, storage: StudyStorage, make_spec: Make) -> None:
        trials: Any = [{"learning_rate": rate} for rate in (1e-3, 1e-2)]
        opened = open_study(make_spec(name="one seed", trials=trials, params={}, seeds=(0,)), storage)
        with Recorder(opened) as recorder:
            for value in (2.0, 1.0):
                recorder.completed(recorder.ask().number, value, {0: value})  # type: ignore[union-attr]
        text = report_html(opened)
        sentence = html.escape("To be surer: the same search with seeds=3, study_name='one seed-3-seeds' (")
        assert text.index('<div class="answer not-safe">') < text.index(sentence) < text.index('<p class="detail">')

    def test_present_values_are_marked_and_have_a_line_of_gain(self, storage: StudyStorage, make_spec: Make) -> None:
        trials: Any = [{"learning_rate": rate} for rate in (1e-3, 1e-2)]
        opened = open_study(make_spec(trials=trials, params={}, seeds=(0, 1), baseline=trials[0]), storage)
        with Recorder(opened) as recorder:
            for value in (1.0, 9.0):
                recorder.completed(recorder.ask().number, value, {0: value, 1: value + 1})  # type: ignore[union-attr]
        text = report_html(opened)
        assert f"<p>{html.escape(conclusion(opened).gain)}</p>" in text
        assert conclusion(opened).gain.startswith(
            "gain over the baseline (#0, the agent's own settings) in the search: 8; "
        )
        assert "learning_rate 1e-3 <em>(baseline)</em></td>" in text
        assert text.count("<em>(baseline)</em>") == 1

    @pytest.mark.slow
    def test_configuration_is_included_as_json(self, study: OpenStudy) -> None:
        text = report_html(study)
        assert "finder best &#x27;ppo &lt;script&gt;" in text
        assert "--json" in text
        assert html.escape(json.dumps(pick_json(study, best(study)), indent=2, ensure_ascii=False)) in text
        assert text.count("&quot;gamma&quot;: 0.99") == 1

    @pytest.mark.parametrize(("metric", "values"), [("return", (50.0, 30.0)), ("loss", (50.0, 70.0))])
    def test_table_shows_the_probability_of_improvement_over_the_pick(
        self, storage: StudyStorage, make_spec: Make, metric: str, values: tuple[float, float]
    ) -> None:
        opened = open_study(make_spec(params={}, trials=ROWS[:2], metric=metric), storage)
        with Recorder(opened) as recorder:
            for outcome in ((40.0, 60.0), values):
                ask = recorder.ask()
                assert ask is not None
                recorder.started(ask.number, {})
                for seed, final in enumerate(outcome):
                    recorder.episodes(ask.number, curve(final, seed))
                recorder.completed(ask.number, sum(outcome) / 2, dict(enumerate(outcome)))
        rows = re.findall(r"<tr[^>]*><td.*?</tr>", report_html(opened))
        cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows[:2]]
        assert [(cell[1], cell[6]) for cell in cells] == [("#0", ""), ("#1", "25%")]  # one of four pairs

    def test_existing_report_is_replaced(self, study: OpenStudy, tmp_path: Path) -> None:
        (tmp_path / "r.html").write_text("old")
        assert "old" not in write_report(study, tmp_path / "r.html").read_text()[:100]

    def test_mode_of_a_page_is_that_of_the_umask_or_of_the_replaced_file(self, tmp_path: Path) -> None:
        path, before = tmp_path / "page.html", os.umask(0o077)
        try:
            assert write_page("new", path, "page").stat().st_mode & 0o777 == 0o600
            os.umask(0o022)
            assert write_page("replaced", path, "page").stat().st_mode & 0o777 == 0o600
            path.unlink()
            assert write_page("public", path, "page").stat().st_mode & 0o777 == 0o644
        finally:
            os.umask(before)
        assert path.read_text() == "public"

    def test_unwritable_path_raises(self, study: OpenStudy, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match="is a directory"):
            write_report(study, tmp_path)
        with pytest.raises(StudyError, match="cannot be written"):
            write_report(study, tmp_path / "none" / "report.html")


def test_points_that_are_kept_keep_their_marks_texts_and_bars() -> None:
    figure = new_figure("t", "x", "y")
    add_failed(figure, [0, 1, 2, 3, 4], list("abcde"), ["hung", "diverged", "diverged", "error", "killed"])
    points = [0.0, 1.0, 2.0, 3.0, 4.0]
    bars = {"type": "data", "symmetric": False, "array": points, "arrayminus": points}
    figure.add_scatter(
        x=points, y=points, error_x=bars, error_y=bars, texttemplate=["#0", "#1", "#2", "#3", "#4"], name="01234",
        marker={"size": points, "color": "#000000"},
    )  # fmt: skip
    thin(figure, 3)
    failed, cloud = figure.data
    assert (list(failed.x), list(failed.text)) == ([0, 2, 4], ["a", "c", "e"])
    assert list(failed.marker.symbol) == ["circle-open", "x-thin", "circle-open"]
    assert list(failed.customdata) == [failure_word(kind) for kind in ("hung", "diverged", "killed")]
    for kept in (cloud.x, cloud.marker.size, *((bar.array, bar.arrayminus) for bar in (cloud.error_x, cloud.error_y))):
        assert np.array_equal(np.unique(kept), [0.0, 2.0, 4.0])
    assert (list(cloud.texttemplate), cloud.name) == (["#0", "#2", "#4"], "01234")


def test_log_axis_ticks_are_round_numbers() -> None:
    assert log_axis([1e-5, 1e-1])["ticktext"] == ["1e-5", "1e-4", "1e-3", "1e-2", "1e-1"]
    assert log_axis([1e-3, 5e-3])["ticktext"] == ["1e-3", "2e-3", "5e-3"]
    assert log_axis([1e-3])["ticktext"] == ["6e-4", "8e-4", "1e-3", "1.5e-3"]


@given(st.floats(1e-8, 1e3), st.floats(1, 1e3))
@example(13.0, 35.0)  # a little less than two decades, with one power of ten
def test_log_axis_has_two_to_nine_ticks(low: float, ratio: float) -> None:
    assert 2 <= len(log_axis([low, low * ratio])["tickvals"]) <= 9


@pytest.mark.parametrize(("rate", "anchor"), [(1e-5, "left"), (1e-3, "center"), (1e-1, "right")])
def test_annotation_at_an_end_of_the_axis_is_anchored_inwards(rate: float, anchor: str) -> None:
    figure = new_figure("t", "x", "y")
    annotate_rate(figure, rate, "pick: " + 60 * "long", [1e-5, 1e-1])
    assert figure.layout.annotations[0].xanchor == anchor
    assert len(figure.layout.annotations[0].text) < 60


@pytest.mark.parametrize(("n", "text"), [(1, "one seed"), (3, "mean over 3 seeds"), (5, "mean over 5 seeds")])
def test_over_seeds_text_names_the_aggregate(n: int, text: str) -> None:
    assert over_seeds_text(n) == text


def test_page_on_a_full_disk_names_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StudyError, match=r"the report .* cannot be written: No space left on device"):
        write_page("text", tmp_path / "page.html", "report")
    assert not list(tmp_path.iterdir())
