"""What a search gives back prints as an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from finder.results import SearchResult
from studies.opening import open_study
from studies.recorder import Recorder
from studies.spec import StudySpec
from studies.storage import open_storage
from studies.study import OpenStudy

RATES = (1e-4, 1e-3, 1e-2)


@pytest.fixture
def study() -> Iterator[OpenStudy]:
    """Two complete trials, one that failed."""
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


def test_a_result_says_what_became_of_the_trials_and_what_was_found(study: OpenStudy):
    first, second = repr(SearchResult(study)).splitlines()
    assert first == "lr-ppo-CartPole-v1: 3 trials, 2 complete, 0 pruned, 1 failed, in memory"
    assert second == (
        "learning_rate 1e-3: return 494 ± 11 over 2 seeds; expected 390 to 590 (95%) (trial #1 of lr-ppo-CartPole-v1)"
    )
    assert repr(SearchResult(study, "three failures")).endswith("stopped: three failures")


def test_a_result_without_a_pick_says_why(study: OpenStudy):
    with open_storage("memory") as storage:
        empty = SearchResult(open_study(study.spec, storage))
        assert repr(empty).splitlines()[1].startswith("no pick: no trial is complete")


def test_the_table_prints_every_column_with_the_digits_that_matter(study: OpenStudy):
    table = SearchResult(study).table()
    header, *rows = repr(table).splitlines()
    assert header.split() == [
        "trial", "learning_rate", "value", "spread", "n_seeds", "state", "env_steps", "wall_seconds", "reason",
    ]  # fmt: skip
    assert rows[1].split() == ["1", "1e-3", "493.6", "11", "2", "COMPLETE", "1,000", "12.3"]
    assert rows[2].split() == ["2", "1e-2", "0", "FAIL", "1.2", "the", "loss", "became", "nan"]
    assert table["value"][1] == pytest.approx(493.62962955)  # what is printed is not what is there
    assert "..." not in repr(table[["trial", "value"]])


def test_a_notebook_shows_both(study: OpenStudy):
    shown = SearchResult(study)._repr_html_()
    assert "learning_rate 1e-3: return 494 ± 11" in shown
    assert "<table" in shown
