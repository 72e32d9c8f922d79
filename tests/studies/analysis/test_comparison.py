"""Comparison of studies: the order of their picks, what cannot be told apart, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from studies.analysis.comparison import compare
from studies.errors import StudyError
from studies.figures.comparison import plot_picks, plot_progress
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports.comparison import write_comparison
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy
from studies.study.time_spent import BEGAN_ATTR

Make = Callable[..., StudySpec]
Seeds = Sequence[float]


def recorded(spec: StudySpec, storage: StudyStorage, values: Sequence[Seeds], reason: str = "") -> OpenStudy:
    """Return a study whose trials have these seeds; with a reason one failed trial besides."""
    n_trials = len(values) + bool(reason)
    study = open_study(spec.model_copy(update={"n_trials": n_trials, "confirm": 0}), storage)
    with Recorder(study) as recorder:
        for seeds in values:
            recorder.completed(recorder.ask().number, sum(seeds) / len(seeds), dict(enumerate(seeds)))  # type: ignore[union-attr]
        if reason:
            recorder.failed(recorder.ask().number, reason)  # type: ignore[union-attr]
    return study


def confirmed(spec: StudySpec, storage: StudyStorage, values: Sequence[Seeds], further: Seeds) -> OpenStudy:
    """Return a study with complete trials of these seeds, the best of which has these values on further seeds."""
    study = open_study(spec.model_copy(update={"n_trials": len(values), "confirm": 1}), storage)
    with Recorder(study) as recorder:
        for seeds in values:
            recorder.completed(recorder.ask().number, sum(seeds) / len(seeds), dict(enumerate(seeds)))  # type: ignore[union-attr]
        ask = recorder.ask_confirmation()
        assert ask is not None
        recorder.completed(ask.number, sum(further) / len(further), dict(zip(ask.seeds, further, strict=True)))
    return study


def test_the_best_pick_comes_first_and_worse_ones_are_told_apart(storage: StudyStorage, make_spec: Make) -> None:
    low = recorded(make_spec(name="low"), storage, [(10.0, 11.0, 12.0)])
    high = recorded(make_spec(name="high"), storage, [(95.0, 96.0, 97.0)])
    compared = compare([low, high])
    assert [each.name for each in compared.studies] == ["high", "low"]
    assert [each.ranked.tied for each in compared.studies if each.ranked] == [True, False]
    assert [each.value_text for each in compared.studies] == ["96.0 ± 1.0", "11.0 ± 1.0"]
    first, second, *conclusion = str(compared).splitlines()
    assert first.startswith("high (")
    assert first.endswith(": 96.0 ± 1.0 over 3 seeds")
    assert second.startswith("low (")
    assert tuple(conclusion) == compared.lines
    assert repr(compared) == str(compared)
    assert compared.lines == (
        "high has the best value: return 96.0 ± 1.0 over 3 seeds",
        "no other pick may be as good, with 95% confidence",
    )


def test_picks_of_equal_values_are_both_the_best(storage: StudyStorage, make_spec: Make) -> None:
    studies = [recorded(make_spec(name=name), storage, [(9.0, 9.0, 9.0)]) for name in ("one", "two", "three")]
    low = recorded(make_spec(name="low"), storage, [(1.0, 2.0, 3.0)])
    assert compare([*studies, low]).lines[0] == "one, two and three have equal values: return 9 ± 0 over 3 seeds"


def test_confirmed_picks_are_compared_by_their_further_seeds(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(name="lucky", confirm_seeds=3)
    lucky = confirmed(spec, storage, [(90.0, 91.0), (95.0, 96.0)], (10.0, 11.0, 12.0))
    honest = confirmed(
        make_spec(name="honest", confirm_seeds=3), storage, [(50.0, 51.0), (1.0, 2.0)], (50.0, 51.0, 52.0)
    )
    assert compare([lucky, honest]).lines == (
        "honest has the best value: return 51.0 ± 1.0 over 3 further seeds",
        "no other pick may be as good, with 95% confidence",
    )


def test_confirmed_picks_are_told_apart_beside_an_unconfirmed_one(storage: StudyStorage, make_spec: Make) -> None:
    kept = {"confirm_seeds": 3}
    high = confirmed(make_spec(name="high", **kept), storage, [(50.0, 51.0), (1.0, 2.0)], (50.0, 51.0, 52.0))
    low = confirmed(make_spec(name="low", **kept), storage, [(20.0, 21.0), (1.0, 2.0)], (20.0, 21.0, 22.0))
    many = recorded(make_spec(name="many"), storage, [(k + 0.0, k + 1.0, k + 2.0) for k in range(9)])
    compared = compare([high, low, many])
    assert compared.lines == (
        "high has the best value: return 51.0 ± 1.0 over 3 further seeds",
        "low is worse, with 95% confidence",
        "many is not confirmed on further seeds: the best value of a search is optimistic, so it is not known whether "
        "it is better",
    )
    assert [each["tied"] for each in compared.to_json()["studies"]] == [True, False, None]


def test_best_of_many_values_of_a_search_tells_nothing(storage: StudyStorage, make_spec: Make) -> None:
    many = recorded(make_spec(name="many"), storage, [(k + 0.0, k + 1.0, k + 2.0) for k in range(9)])
    one = confirmed(make_spec(name="one", confirm_seeds=3), storage, [(1.0, 2.0, 3.0), (0.0, 1.0)], (1.0, 2.0, 3.0))
    compared = compare([many, one])
    assert [each["tied"] for each in compared.to_json()["studies"]] == [None, None]
    head, caveat = compared.lines
    assert head.startswith("many has the best value: return ")
    assert caveat == (
        "many is not confirmed on further seeds: the best value of a search is optimistic, so it is not known whether "
        "it is better"
    )


def test_progress_is_the_best_value_over_the_time(storage: StudyStorage, make_spec: Make) -> None:
    up = recorded(make_spec(name="up"), storage, [(90.0, 92.0), (95.0, 97.0), (80.0, 81.0)])
    down = recorded(make_spec(name="down"), storage, [(1.0, 2.0)])
    best = compare([up, down]).studies[0]
    assert [value for _, value in best.progress] == [91.0, 96.0, 96.0]
    assert best.minutes >= best.progress[-1][0] >= best.progress[0][0] >= 0.0
    assert best.n_ended == 3


def test_time_counts_from_the_first_start_also_where_trials_were_resumed(
    storage: StudyStorage, make_spec: Make
) -> None:
    spec = make_spec(name="resumed", n_trials=1, confirm=0)
    with Recorder(open_study(spec, storage)) as recorder:
        recorder.interrupted(recorder.ask().number)  # type: ignore[union-attr]
    study = open_study(spec, storage)
    began = datetime.fromisoformat(study.study.user_attrs[BEGAN_ATTR])
    assert abs((datetime.now() - began).total_seconds()) < 60
    study.study.set_user_attr(BEGAN_ATTR, (began - timedelta(hours=2)).isoformat())
    with Recorder(study) as recorder:
        recorder.completed(recorder.ask().number, 1.0, {0: 1.0, 1: 1.0})  # type: ignore[union-attr]
    other = recorded(make_spec(name="other"), storage, [(8.0, 9.0)])
    compared = {each.name: each for each in compare([study, other]).studies}
    assert 120.0 <= compared["resumed"].minutes < 121.0
    assert compared["resumed"].progress[0][0] >= 120.0
    assert compared["other"].minutes < 1.0


def test_no_trial_ends_before_the_start_of_its_study(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks are set back, and those of machines differ."""
    both = [recorded(make_spec(name=name), storage, [(1.0, 2.0)]) for name in ("one", "two")]
    monkeypatch.setattr("studies.analysis.comparison.began_at", lambda study: datetime.now() + timedelta(hours=1))
    for each in compare(both).studies:
        assert each.minutes == each.progress[0][0] == 0.0


def test_loss_is_better_when_it_is_lower(storage: StudyStorage, make_spec: Make) -> None:
    low = recorded(make_spec(name="low", metric="loss"), storage, [(1.0, 1.1), (3.0, 3.1)])
    high = recorded(make_spec(name="high", metric="loss"), storage, [(5.0, 5.1)])
    compared = compare([high, low])
    assert [each.name for each in compared.studies] == ["low", "high"]
    assert [value for _, value in compared.studies[0].progress] == pytest.approx([1.05, 1.05])


def test_picks_that_may_be_as_good_are_named(storage: StudyStorage, make_spec: Make) -> None:
    one = recorded(make_spec(name="one"), storage, [(10.0, 50.0, 90.0)])
    two = recorded(make_spec(name="two"), storage, [(20.0, 50.0, 95.0)])
    compared = compare([one, two])
    assert compared.lines[1] == "one cannot be distinguished from it, with 95% confidence"


def test_one_seed_cannot_exclude_luck(storage: StudyStorage, make_spec: Make) -> None:
    several = recorded(make_spec(name="several"), storage, [(499.0, 499.5, 500.0)])
    single = recorded(make_spec(name="single", seeds=(0,)), storage, [(485.0,)])
    assert compare([several, single]).lines == (
        "several has the best value: return 499.5 ± 0.5 over 3 seeds",
        "one seed cannot exclude luck (single)",
    )


def test_runs_of_other_lengths_are_a_caveat(storage: StudyStorage, make_spec: Make) -> None:
    short = recorded(make_spec(name="short"), storage, [(1.0, 2.0)])
    long = recorded(make_spec(name="long", env_steps=None, episodes=5000), storage, [(8.0, 9.0)])
    assert compare([short, long]).lines[-1] == (
        "the runs have different lengths: long 5,000 episodes, short 1,000 environment steps"
    )


def test_studies_that_are_not_complete_are_named(storage: StudyStorage, make_spec: Make) -> None:
    running = open_study(make_spec(name="running", n_trials=50, confirm=0), storage)
    with Recorder(running) as recorder:
        recorder.completed(recorder.ask().number, 30.0, {0: 30.0, 1: 30.0})  # type: ignore[union-attr]
    done = recorded(make_spec(name="done"), storage, [(8.0, 9.0)])
    assert compare([running, done]).lines[-1] == "running is not complete, and may change: 1 of 50 trials done"
    unconfirmed = recorded(make_spec(name="unconfirmed"), storage, [(8.0, 9.0), (18.0, 19.0)])
    waiting = replace(unconfirmed, spec=unconfirmed.spec.model_copy(update={"confirm": 1}))
    assert compare([waiting, done]).lines[-1] == (
        "unconfirmed is not complete, and may change: 1 finalist still to be confirmed"
    )


def test_studies_without_a_pick_come_last(storage: StudyStorage, make_spec: Make) -> None:
    failed = recorded(make_spec(name="failed"), storage, [], "it diverged")
    good = recorded(make_spec(name="good"), storage, [(8.0, 9.0)])
    compared = compare([failed, good])
    assert [each.name for each in compared.studies] == ["good", "failed"]
    assert compared.lines[1] == "no other study has a pick"
    assert compare([failed, failed]).lines == ("no study has a pick",)
    data = json.loads(json.dumps(compared.to_json(), allow_nan=False))
    assert [each["value"] for each in data["studies"]] == [8.5, None]
    assert [each["status"] for each in data["studies"]][1] == "no pick"


def test_studies_of_one_name_in_two_storages_are_numbered(
    storage: StudyStorage, make_spec: Make, tmp_path: Path
) -> None:
    with open_storage(f"sqlite:///{tmp_path}/other.db") as other:
        same = recorded(make_spec(), storage, [(1.0, 2.0)])
        numbered = recorded(make_spec(name="a study (1)"), storage, [(4.0, 5.0)])
        there = recorded(make_spec(storage=f"sqlite:///{tmp_path}/other.db"), other, [(8.0, 9.0)])
        compared = compare([same, numbered, there])
        assert [each.name for each in compared.studies] == ["a study (3)", "a study (1)", "a study (2)"]


def test_another_metric_than_that_of_the_studies_is_refused(storage: StudyStorage, make_spec: Make) -> None:
    studies = [open_study(make_spec(name=name), storage) for name in ("a", "b")]
    with pytest.raises(StudyError, match="'a' is judged by 'return', not by 'auc'"):
        compare(studies, "auc")
    assert compare(studies, "return").metric == "return"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "Acrobot-v1"}, "env is 'CartPole-v1' in the first, and 'Acrobot-v1' in the second"),
        ({"max_episode_steps": 7}, "max_episode_steps is None in the first, and 7"),
        ({"metric": "auc"}, "metric is 'return' in the first, and 'auc'"),
        (
            {"metrics": ("return", "loss"), "sampler": "random"},
            r"'other' has several objectives: give one of return",
        ),
    ],
)
def test_values_of_different_meaning_are_refused(
    storage: StudyStorage, make_spec: Make, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        compare([open_study(make_spec(), storage), open_study(make_spec(name="other", **changes), storage)])


def test_one_study_is_refused(storage: StudyStorage, make_spec: Make) -> None:
    with pytest.raises(StudyError, match="needs two or more studies, got 1"):
        compare([open_study(make_spec(), storage)])


def test_figures_and_page_show_every_study(storage: StudyStorage, make_spec: Make, tmp_path: Path) -> None:
    one = recorded(make_spec(name="<one>"), storage, [(1.0, 2.0), (3.0, 4.0)])
    two = recorded(make_spec(name="two"), storage, [(8.0, 9.0)])
    compared = compare([one, two])
    seeds = [list(trace.x) for trace in plot_picks(compared).data]
    assert seeds == [[8.0, 9.0], [8.5], [3.0, 4.0], [3.5]]
    progress = {trace.name: list(trace.y) for trace in plot_progress(compared).data}
    assert progress == {"two": [8.5, 8.5], "&lt;one&gt;": [1.5, 3.5, 3.5]}
    page = write_comparison(compared, tmp_path / "page.html").read_text()
    assert "&lt;one&gt;" in page
    assert "<one>" not in page.partition("<script")[0]
    assert "two has the best value: return 8.50 ± 0.71 over 2 seeds" in page


def test_figures_of_nothing_say_so(storage: StudyStorage, make_spec: Make) -> None:
    compared = compare([open_study(make_spec(name=name), storage) for name in ("a", "b")])
    assert "No study has a pick" in plot_picks(compared).layout.annotations[0].text
    assert "No trial is complete yet" in plot_progress(compared).layout.annotations[0].text
