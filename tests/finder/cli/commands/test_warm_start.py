"""Tests of `--warm-start` of `finder tune` and `finder run`."""

from __future__ import annotations

from typing import Any

import pytest

import studies

TRAIN = """
def train(run, learning_rate: float = 1e-2, gain: float = 1.0):
    while True:
        run.report(gain + learning_rate + run.seed / 1000, length=10)
"""
TUNE = ("tune", "trains.py:train", "--env", "CartPole-v1", "--executor", "inline", "--seeds", "1", "--confirm", "0")
SPACE = ("-p", "learning_rate=1e-4:1e-1:log", "-p", "gain=0:2.0")
FILE = """
name = "from-a-file"
agents = "trains.py:train"
env = "CartPole-v1"
env_steps = 200
seeds = 1
confirm = 0
n_trials = 3
executor = "inline"

[params]
gain = "0:2.0"
"""


@pytest.fixture
def before(finder: Any) -> Any:
    """A folder with the study `before`, whose best trials have gains of 1.75 and 1.5."""
    (finder.folder / "trains.py").write_text(TRAIN)
    sets = [f"--first=learning_rate=1e-3,gain={gain}" for gain in (0.25, 1.75, 0.5, 1.5)]
    ran = finder(*TUNE, *SPACE, *sets, "--n-trials", "4", "--env-steps", "200", "--study-name", "before", "--quiet")
    assert ran.code == 0, ran.err
    return finder


def gains_of(finder: Any, name: str, storage: str = "finder.db") -> list[float]:
    with studies.load_study(name, f"{finder.folder}/{storage}") as study:
        return [study.params(trial)["gain"] for trial in study.trials()]


@pytest.mark.slow
def test_best_trials_are_tried_first_and_the_others_inform_the_sampler(before: Any) -> None:
    words = (*TUNE, *SPACE, "--env-steps", "200", "--study-name", "after", "--warm-start", "before")
    ran = before(*words, "--warm-start-trials", "2", "--first", "gain=1.9", "--n-trials", "5")
    assert ran.code == 0, ran.err
    note = " ".join(ran.err.split())
    assert "Warm start from before: its best 2 trials are tried first and 4 of its 4 finished trials inform" in note
    gains = gains_of(before, "after")
    assert gains[:4] == [1.9, 1.75, 1.5, 1.0], "given ones, those of the other study, the agent as it is"
    assert len(gains) == 5
    again = before(*words, "--warm-start-trials", "2", "--first", "gain=1.9", "--n-trials", "6")
    assert again.code == 0, again.err
    assert gains_of(before, "after")[:5] == gains


@pytest.mark.slow
def test_dry_run_tells_what_would_be_taken_over(before: Any) -> None:
    words = (*TUNE, *SPACE, "--env-steps", "200", "--n-trials", "5", "--study-name", "after", "--warm-start", "before")
    ran = before(*words, "--dry-run")
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    assert "Warm start from before: its best 4 trials are tried first and 4 of its 4 finished trials inform" in shown
    assert "learning_rate=0.0001:0.1:log, gain=0:2.0" in shown


@pytest.mark.slow
def test_study_of_another_storage_and_budget_is_only_tried_first(before: Any) -> None:
    words = (*TUNE, "-p", "gain=0:2.0", "--env-steps", "300", "--n-trials", "7", "--storage", "other.db")
    ran = before(*words, "--study-name", "x", "--warm-start", "before", "--warm-start-storage", "finder.db")
    assert ran.code == 0, ran.err
    note = " ".join(ran.err.split())
    assert "its best 4 trials are tried first. Its trials do not inform the sampler: they were made with 200" in note
    assert gains_of(before, "x", "other.db")[:5] == [1.75, 1.5, 0.5, 0.25, 1.0]


@pytest.mark.slow
def test_next_study_with_the_default_name_starts_from_the_one_before(before: Any) -> None:
    short = ("--env-steps", "200", "--n-trials", "2", "--quiet")
    assert before(*TUNE, *SPACE, *short).code == 0
    ran = before(*TUNE, "-p", "gain=0.5:2.0", *short, "--warm-start", "tune-train-CartPole-v1")
    assert ran.code == 0, ran.err
    assert len(gains_of(before, "tune-train-CartPole-v1-2")) == 2


@pytest.mark.slow
def test_file_starts_from_another_study(before: Any) -> None:
    (before.folder / "study.toml").write_text(FILE)
    words = ("run", "study.toml", "--warm-start", "before", "--warm-start-storage", "finder.db", "--quiet")
    ran = before(*words, "--warm-start-trials", "1")
    assert ran.code == 0, ran.err
    assert gains_of(before, "from-a-file")[0] == 1.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--warm-start befor", "there is no study 'befor' in sqlite:///finder.db. Did you mean 'before'?"),
        ("--warm-start before --warm-start-storage none.db", "there is no storage 'none.db'"),
        ("--warm-start before --warm-start-storage ''", "warm_start_storage is ''"),
        ("--warm-start before --warm-start-trials 9", "warm_start_trials is 9, but the study has 5 trials"),
        ('--warm-start before --sampler grid --sampler-kwargs {"points":3}', "A warm start is for samplers"),
        ("--warm-start-trials 3", "need warm_start"),
        ("--warm-start-storage finder.db", "need warm_start"),
        ("--study-name before --warm-start before", "cannot start from itself"),
    ],
)
def test_mistake_names_the_remedy(before: Any, words: str, message: str) -> None:
    import shlex

    given = shlex.split(words.replace('{"points":3}', "'{\"points\":3}'"))
    ran = before(*TUNE, *SPACE, "--env-steps", "200", "--n-trials", "5", *given, "--quiet")
    assert ran.code == 2
    assert message in " ".join(ran.err.split())


def test_mistake_of_another_space_is_named(before: Any) -> None:
    ran = before(
        "tune", "ppo", "--env", "CartPole-v1", "-p", "gamma", "--warm-start", "before", "--n-trials", "1", "--quiet"
    )
    assert ran.code == 2
    assert "searched gain, learning_rate; this one searches gamma" in " ".join(ran.err.split())


def test_mistake_of_a_warm_start_in_a_file_has_its_line(before: Any) -> None:
    trials = '[warm_start]\nstudy = "before"\nstorage = "finder.db"\nnote = ""\n'
    (before.folder / "study.toml").write_text(FILE + trials)
    ran = before("run", "study.toml", "--quiet")
    assert ran.code == 2
    assert "study.toml, line 13: trials of another study are read when a search begins" in " ".join(ran.err.split())
