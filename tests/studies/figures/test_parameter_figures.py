"""Figures of studies of several parameters: importances, parallel coordinates, and values on further seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from histories import FURTHER, TRIALS

from studies.analysis.recommendation import best
from studies.figures.figures import reading_place, study_figures
from studies.figures.importances import MIN_TRIALS, importances_data, plot_importances
from studies.figures.parallel_coordinates import parallel_coordinates_data, plot_parallel_coordinates
from studies.figures.theme import confirmed_text
from studies.judging.judgement import judge
from studies.judging.search_history import SearchHistory
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports import learning_rate_data, optimizers_data, plot_learning_rate, plot_optimizers
from studies.reports.html import report_html
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
SPACE = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.999", "n_epochs": "2,4,10", "n_envs": 4}


def finished_study(
    storage: StudyStorage, spec: StudySpec, value_of: Callable[[dict[str, Any]], float], prune_below: float = -math.inf
) -> OpenStudy:
    """Return a study whose trials have the value `value_of(params)`; trials below `prune_below` are pruned."""
    study = open_study(spec, storage)
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            value = value_of(dict(ask.params))
            recorder.report(ask.number, 500, value)
            if math.isnan(value):
                recorder.failed(ask.number, "it diverged", diverged=True)
            elif value < prune_below:
                recorder.pruned(ask.number, 500, value)
            else:
                recorder.completed(ask.number, value, {0: value - 1, 1: value + 1})
    return study


def by_rate(params: dict[str, Any]) -> float:
    """Return a value that depends on the learning rate alone and is best at 1e-3."""
    return 100.0 - 30 * abs(math.log10(params["learning_rate"]) + 3)


def by_chance(params: dict[str, Any]) -> float:
    return float(np.random.default_rng(int(1e9 * params["learning_rate"])).normal())


def random_spec(make_spec: Make, **changes: Any) -> StudySpec:
    return make_spec(**{"params": SPACE, "sampler": "random", "n_trials": 40, "seeds": (0, 1), **changes})


class TestImportances:
    @pytest.mark.slow
    def test_decisive_parameter_is_significant(self, storage: StudyStorage, make_spec: Make) -> None:
        data = importances_data(finished_study(storage, random_spec(make_spec), by_rate))
        assert data.importances[0].name == "learning_rate"
        assert data.importances[0].share > 0.6
        assert [each.name for each in data.importances if each.sure] == ["learning_rate"]
        assert sum(each.share for each in data.importances) == pytest.approx(1.0)
        assert {each.name for each in data.importances} == set(SPACE) - {"n_envs"}, "fixed ones must have no importance"

    @pytest.mark.slow
    def test_irrelevant_parameters_are_not_significant(self, storage: StudyStorage, make_spec: Make) -> None:
        data = importances_data(finished_study(storage, random_spec(make_spec), by_chance))
        assert sum(each.sure for each in data.importances) == 0
        assert all(0 <= each.share <= 1 for each in data.importances)

    @pytest.mark.slow
    def test_pruned_and_diverged_trials_count_towards_importances(self, storage: StudyStorage, make_spec: Make) -> None:
        """Among the survivors of a race no parameter matters; the pruned trials show its importance."""

        def value_of(params: dict[str, Any]) -> float:
            return math.nan if params["learning_rate"] > 0.03 else by_rate(params)

        study = finished_study(storage, random_spec(make_spec, max_failures_in_a_row=99), value_of, prune_below=80.0)
        data = importances_data(study)
        assert data.n_trials == 40
        assert [each.name for each in data.importances if each.sure] == ["learning_rate"]

    @pytest.mark.slow
    def test_importances_are_deterministic(self, storage: StudyStorage, make_spec: Make) -> None:
        study = finished_study(storage, random_spec(make_spec), by_rate)
        assert importances_data(study) == importances_data(study)

    @pytest.mark.parametrize(
        ("n_trials", "value_of", "why"),
        [
            (MIN_TRIALS - 1, by_rate, f"9 trials of at least {MIN_TRIALS}"),
            (12, lambda params: 500.0, "most trials are level"),
        ],
    )
    def test_insufficient_data_is_stated(
        self, storage: StudyStorage, make_spec: Make, n_trials: int, value_of: Callable[..., float], why: str
    ) -> None:
        study = finished_study(storage, random_spec(make_spec, n_trials=n_trials), value_of)
        data = importances_data(study)
        assert data.importances == ()
        assert why in data.why_none
        assert "Not enough data yet" in plot_importances(study).layout.annotations[0].text

    @pytest.mark.slow
    def test_figure_separates_significant_from_other_parameters(self, storage: StudyStorage, make_spec: Make) -> None:
        figure = plot_importances(finished_study(storage, random_spec(make_spec), by_rate))
        sure, unsure, chance = figure.data
        names = figure.layout.yaxis.ticktext
        assert [names[place] for place in sure.y] == ["learning_rate"]
        assert sorted(names[place] for place in unsure.y) == ["gamma", "n_epochs"]
        assert "beyond chance (95%), 40 trials" in sure.name
        assert len(chance.x) == 3


class TestParallelCoordinates:
    @pytest.mark.slow
    def test_axes_are_the_searched_parameters_and_the_value(self, storage: StudyStorage, make_spec: Make) -> None:
        study = finished_study(storage, random_spec(make_spec), by_rate, prune_below=50.0)
        data = parallel_coordinates_data(study)
        assert {axis.name for axis in data.axes[:-1]} == set(SPACE) - {"n_envs"}
        assert data.axes[-1].name == "return in the search"
        by_name = {axis.name: axis for axis in data.axes}
        assert [text for _, text in by_name["n_epochs"].ticks] == ["2", "4", "10"]
        assert {"1e-4", "1e-3", "1e-2"} <= {text for _, text in by_name["learning_rate"].ticks}
        assert all(0 <= place <= 1 for axis in data.axes for place, _ in axis.ticks)
        best = data.lines[0]
        assert (best.state, best.places[-1]) == ("complete", 1.0)
        pruned = [line for line in data.lines if line.state == "pruned"]
        assert pruned
        assert all(math.isnan(line.places[-1]) for line in pruned), "lines of pruned trials must end without a value"

    @pytest.mark.slow
    def test_pick_is_a_separate_line(self, storage: StudyStorage, make_spec: Make) -> None:
        study = finished_study(storage, random_spec(make_spec), by_rate)
        data = parallel_coordinates_data(study)
        (pick,) = [trace for trace in plot_parallel_coordinates(study).data if trace.name == "the pick"]
        shown = next(line for line in data.lines if line.number == data.pick)
        assert list(pick.y)[:-1] == pytest.approx(shown.places, abs=1e-3)

    @pytest.mark.slow
    def test_only_the_most_important_parameters_and_best_trials_are_drawn(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        study = finished_study(storage, random_spec(make_spec), by_rate)
        data = parallel_coordinates_data(study, max_params=1, max_lines=10)
        assert [axis.name for axis in data.axes] == ["learning_rate", "return in the search"]
        assert (data.n_left_out, len(data.lines), data.n_lines_left_out) == (2, 10, 30)
        title = plot_parallel_coordinates(study, max_params=1, max_lines=10).layout.title.text
        assert "2 more parameters and 30 more trials not shown" in title

    def test_unset_parameter_is_drawn_below_the_axis(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [
            {"learning_rate": 10.0**-power, **({"gamma": 0.9 + power / 100} if power % 2 else {})}
            for power in range(1, 5)
        ]
        study = finished_study(storage, make_spec(params={}, trials=rows, seeds=(0, 1)), by_rate)
        data = parallel_coordinates_data(study)
        place = [axis.name for axis in data.axes].index("gamma")
        assert {line.places[place] < 0 for line in data.lines} == {True, False}
        assert "not set" in [text for _, text in data.axes[place].ticks]


@pytest.mark.slow
def test_importances_and_coordinates_need_several_parameters(storage: StudyStorage, make_spec: Make) -> None:
    several = study_figures(finished_study(storage, random_spec(make_spec, n_trials=4), by_rate), compact=True)
    assert {"finder-importances", "finder-parallel-coordinates"} <= set(several)
    assert list(several) == sorted(several, key=reading_place)
    one = study_figures(finished_study(storage, make_spec(name="one", seeds=(0, 1)), by_rate))
    assert not {"finder-importances", "finder-parallel-coordinates"} & set(one)


class TestFurtherSeeds:
    @pytest.fixture
    def confirmed(self, storage: StudyStorage, make_spec: Make) -> OpenStudy:
        study = finished_study(storage, make_spec(n_trials=4, confirm=2, seeds=(0, 1)), by_rate)
        with Recorder(study) as recorder:
            for ask in iter(recorder.ask_confirmation, None):
                recorder.completed(ask.number, 50.0, {seed: 50.0 + seed % 2 for seed in ask.seeds})
        return study

    def test_confirmations_are_drawn_separately_from_the_search(self, confirmed: OpenStudy) -> None:
        data = learning_rate_data(confirmed)
        assert len(data.confirmed) == 2
        assert all(50 <= point.value <= 51 for point in data.confirmed)
        assert data.pick is not None
        assert data.confirmed[0].number == data.pick.number
        names = [trace.name for trace in plot_learning_rate(confirmed).data]
        assert "further seeds, 95% interval" in names
        assert "the pick, in the search" in names
        rows = optimizers_data(confirmed).rows
        assert sum(row.further is not None for row in rows) == 2
        figure = plot_optimizers(confirmed)
        assert "further seeds, 95% interval" in [trace.name for trace in figure.data]
        assert "mean over 2 seeds" in figure.layout.xaxis.title.text
        low, high = figure.layout.xaxis.range
        assert low < 50 < high or low < min(row.best.value for row in rows)

    def test_pick_is_marked_in_both_tables(self, confirmed: OpenStudy) -> None:
        pick = best(confirmed).trial
        _, further, ranked = report_html(confirmed).split("<h2>")[:3]
        for table in (further, ranked):
            [row] = re.findall(r"<tr class=pick>.*?</tr>", table)
            assert f">#{pick}<" in row

    def test_agents_with_one_setting_each_are_not_labelled_tuned(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [{"agent": "ppo"}, {"agent": "a2c"}]
        spec = make_spec(kind="agents", agents=("ppo", "a2c"), params={}, trials=rows, seeds=(0, 1), confirm=0)
        study = finished_study(storage, spec, lambda params: 1.0 if params["agent"] == "ppo" else 2.0)
        assert not optimizers_data(study).tuned
        assert plot_optimizers(study).layout.title.text == "<b>Ranking</b>"


def test_one_further_seed_has_no_interval_in_the_legend(make_spec: Make) -> None:
    found = judge(SearchHistory(trials=TRIALS, n_finalists=1, further_seeds=FURTHER))
    assert confirmed_text(make_spec(confirm=1, confirm_seeds=1), found) == "further seed"
    assert confirmed_text(make_spec(confirm=1, confirm_seeds=2), found) == "further seeds, 95% interval"
    shorter = replace(found, confirms_apart=True, confirm_env_steps=8_000)
    assert confirmed_text(make_spec(confirm=1, confirm_seeds=2), shorter) == "further seeds, 8,000 steps, 95% interval"
