"""The explanation of a study in sentences, and the formatting of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from studies.analysis.conclusion import conclusion
from studies.figures.learning_curves import plot_learning_curves
from studies.figures.optimizers import plot_optimizers
from studies.judging.confirmation import verdict
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports.explanation import explain
from studies.reports.html import report_html
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy
from studies.words import interval_text, number_text, param_text, params_text, rate_text, spread_text

Make = Callable[..., StudySpec]


def test_close_runner_up_is_a_tie(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for seeds in ({0: 10.0, 1: 14.0}, {0: 11.0, 1: 12.0}):
            recorder.completed(recorder.ask().number, sum(seeds.values()) / 2, seeds)  # type: ignore[union-attr]
    assert re.search(r"Trial #\d, [^:]*, is level with the pick: ", explain(opened))
    assert "The pick is the best of them so far, its neighbours counted too; even 100 seeds" in explain(opened)


def test_tie_states_the_seeds_that_would_distinguish_the_trials(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for seeds in ({0: 10.0, 1: 14.0, 2: 12.0}, {0: 7.0, 1: 11.0, 2: 9.0}):
            recorder.completed(recorder.ask().number, sum(seeds.values()) / 3, seeds)  # type: ignore[union-attr]
    text = r"Trial #1, .* is level with the pick: .*; about \d+ seeds each would distinguish them\."
    assert re.search(text, explain(opened))


def test_clear_winner_is_stated(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for seeds in ({0: 10.0, 1: 14.0, 2: 12.0}, {0: 107.0, 1: 111.0, 2: 109.0}):
            recorder.completed(recorder.ask().number, sum(seeds.values()) / 3, seeds)  # type: ignore[union-attr]
    assert "No other complete trial may be as good, with 95% confidence." in explain(opened)
    assert "expected 44 to 11" in conclusion(opened).value, "three runs do not exclude that others collapse"


def test_choice_without_effect_is_stated(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"optimizer": name} for name in ("adam", "rmsprop", "sgd")]
    opened = open_study(make_spec(kind="opt", params={}, trials=rows), storage)
    with Recorder(opened) as recorder:
        for first in (100.0, 99.5, 0.0):
            seeds = {0: first, 1: first + 1, 2: first + 2}
            recorder.completed(recorder.ask().number, first + 1, seeds)  # type: ignore[union-attr]
    assert "Which optimizer does not matter here: adam and rmsprop are level, to " in explain(opened)


def test_one_seed_is_mentioned_once(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(), storage)
    with Recorder(opened) as recorder:
        for value in (10.0, 9.999):
            recorder.completed(recorder.ask().number, value, {0: value})  # type: ignore[union-attr]
    text = f"{' '.join(conclusion(opened).lines)} {explain(opened)}"
    assert len(re.findall("one seed", text, re.IGNORECASE)) == 1


def test_report_of_one_seed_shows_no_spread_and_no_probabilities(storage: StudyStorage, make_spec: Make) -> None:
    opened = open_study(make_spec(seeds=(0,), confirm=0), storage)
    with Recorder(opened) as recorder:
        for value in (10.0, 8.0):
            recorder.completed(recorder.ask().number, value, {0: value})  # type: ignore[union-attr]
    assert "0%" not in re.sub(r"<(script|style).*?</\1>", "", report_html(opened), flags=re.DOTALL)
    assert plot_learning_curves(opened).layout.yaxis.title.text == "return in the search<br>one seed"
    assert [trace.name for trace in plot_optimizers(opened).data if trace.name] == ["in the search, one seed"]


def test_conclusion_for_agents_names_the_agent(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"agent": "dqn"}, {"agent": "ppo"}]
    opened = open_study(make_spec(kind="agents", agents=("dqn", "ppo"), params={}, trials=rows), storage)
    with Recorder(opened) as recorder:
        for seeds in ({0: 38.0, 1: 58.0}, {0: 59.8, 1: 74.2}):
            recorder.completed(recorder.ask().number, sum(seeds.values()) / 2, seeds)  # type: ignore[union-attr]
    assert conclusion(opened).pick == "agent ppo"
    assert conclusion(opened).value.startswith("return 67 ± 10 in the search, over 2 seeds")
    tie = "Trial #0, agent dqn, is level with the pick: 48 ± 14 over 2 seeds in all, the pick 67 ± 10 over 2."
    assert tie in explain(opened)


@pytest.mark.slow
def test_explanation_does_not_repeat_the_conclusion(storage: StudyStorage, make_spec: Make) -> None:
    """For each status, the explanation has all further reasons, and no line of the conclusion."""
    for name, values, seeds, status in (
        ("safe", (10.0, 100.0, 12.0), (0, 1, 2), "safe"),
        ("tie", (10.0, 11.0), (0, 1, 2), "tie"),
        ("luck", (10.0, 100.0, 12.0, 11.0), (0,), "not safe"),
    ):
        rows = [{"agent": label} for label in ("dqn", "ppo", "a2c", "trpo")[: len(values)]]
        labels = tuple(row["agent"] for row in rows)
        spec = make_spec(name=name, kind="agents", agents=labels, params={}, trials=rows, seeds=seeds, confirm=0)
        opened = open_study(spec, storage)
        with Recorder(opened) as recorder:
            for value in values:
                own = {seed: value + seed for seed in seeds}
                recorder.completed(recorder.ask().number, value + len(seeds) // 2, own)  # type: ignore[union-attr]
        found, text = conclusion(opened), explain(opened)
        assert found.status == status
        for line in (found.pick, found.value, found.certainty):
            assert line.lower() not in text.lower()
        assert [reason.text for reason in found.reasons[1:] if reason.text.lower() not in text.lower()] == []


def test_numbers_are_formatted_with_significant_digits() -> None:
    assert [rate_text(rate) for rate in (1e-5, 3e-4, 0.00139, 0.1, 1.0, 20.0)] == [
        "1e-5", "3e-4", "1.39e-3", "1e-1", "1", "2e1",
    ]  # fmt: skip
    assert [number_text(value) for value in (478.234, 12345.6, -0.5, math.nan)] == [
        "478.2",
        "12,346",
        "-0.5",
        "unknown",
    ]
    assert spread_text(466.41, 17.01) == "466 ± 17"
    assert spread_text(363.2, 162.3) == "360 ± 160"
    assert spread_text(-85.63, 2.51) == "-85.6 ± 2.5"
    # One digit of the spread if the value has three digits without it: the spread of a few seeds is itself rough.
    assert spread_text(37.78, 0.86) == "37.8 ± 0.9"
    assert spread_text(9.3460, 0.0054) == "9.346 ± 0.005"
    assert spread_text(164.24, 0.31) == "164.2 ± 0.3"
    assert spread_text(493.63, 110.3) == "490 ± 110"
    assert spread_text(0.0, 2.51) == "0.0 ± 2.5"
    assert spread_text(5.0, math.nan) == "5"
    assert spread_text(-500.0, 0.0) == "-500 ± 0"
    assert param_text("gamma", 0.99) == "0.99"
    assert param_text("gamma", 0.9956997213350701) == "0.9957"
    assert param_text("gamma", 0.99996) == "0.99996"
    assert param_text("learning_rate", 0.001) == "1e-3"
    assert param_text("n_steps", 128) == "128"


def test_discounts_are_shown_as_they_are_set() -> None:
    assert params_text({"one_minus_gamma": 0.00381, "ent_coef": 0.5}) == "ent_coef 0.5, gamma 0.9962"
    assert params_text({"one_minus_gamma": "0.01 → 0.02"}) == "one_minus_gamma 0.01 → 0.02"
    assert params_text({"one_minus_mix": 0.5}) == "one_minus_mix 0.5"  # of a function of the user


def test_ends_of_intervals_are_rounded_to_their_width() -> None:
    assert interval_text(-0.3, 34.0) == "0 to 34"
    assert interval_text(463.2, 511.8) == "463 to 512"
    assert interval_text(-22.9, 84.13) == "-20 to 80"
    assert interval_text(-22.9, 84.13, 83.75) == "-23 to 84"  # contains the value


def test_interrupted_trials_are_not_counted_as_failed(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        first, second = recorder.ask(), recorder.ask()
        assert first is not None
        assert second is not None
        recorder.completed(first.number, 1.0, {0: 1.0})
        recorder.interrupted(second.number)
    assert "1 complete, 0 pruned, 0 failed, 1 interrupted" in explain(study)
    assert "What failed and why" not in report_html(study)


def confirmed_study(storage: StudyStorage, spec: StudySpec, further: dict[int, float | None]) -> OpenStudy:
    """Return a study of three trials of the values 30, 60 and 90, with these means on further seeds; None: diverged."""
    opened = open_study(spec, storage)
    with Recorder(opened) as recorder:
        while (ask := recorder.ask()) is not None:
            value = 30.0 * (ask.number + 1)
            recorder.completed(ask.number, value, {seed: value - 1 + seed for seed in ask.seeds})
        while (ask := recorder.ask_confirmation()) is not None:
            worth = further[ask.confirms or 0]
            if worth is None:
                recorder.failed(ask.number, "NaN", diverged=True)
            else:
                recorder.completed(ask.number, worth, {seed: worth + seed % 2 for seed in ask.seeds})
    return opened


def test_texts_for_a_metric_that_is_minimized_call_higher_values_worse(storage: StudyStorage, make_spec: Make) -> None:
    opened = confirmed_study(storage, make_spec(metric="loss", n_trials=3, confirm=0), {})
    assert "is slightly optimistic: expect a somewhat worse one on new seeds." in explain(opened)
    assert "probable it is that its expected value is the best of all" in report_html(opened)
    again = confirmed_study(storage, make_spec(name="b", metric="loss", n_trials=3, confirm=1), {0: 90.0, 1: 95.0})
    assert verdict(again).confirmation is not None
    assert ">optimism</th>" in report_html(again)
    assert re.search(r": the search underestimated it by \d", explain(again))


def test_table_counts_the_complete_trials_that_it_leaves_out(storage: StudyStorage, make_spec: Make) -> None:
    opened = confirmed_study(storage, make_spec(n_trials=3, confirm=1), {2: None, 1: 60.0, 0: 30.0})
    assert list(verdict(opened).refuted) == [2]
    assert "<h2>The best 2 of 3 complete trials</h2>" in report_html(opened)
    whole = confirmed_study(storage, make_spec(name="whole", n_trials=3, confirm=0), {})
    assert "<h2>Complete trials</h2>" in report_html(whole)
