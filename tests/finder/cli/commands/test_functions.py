"""Tests of user-defined training functions on the command line."""

from __future__ import annotations

from typing import Any

import pytest

MINE = '''
import math


def train(run, learning_rate: float = 1e-4, width: int = 8):
    """Reports higher returns the nearer the rate is to 0.01."""
    while True:
        run.report(100 * math.exp(-abs(math.log10(learning_rate) + 2)), length=20)
'''

TOML = """
name = "from-toml"
agents = ["mine.py:train"]
env = "CartPole-v1"
env_steps = 200
seeds = [0]
n_trials = 2
executor = "inline"

[params]
learning_rate = "1e-3:1e-2:log"
"""

QUICK = ("--env", "CartPole-v1", "--env-steps", "200", "--seeds", "1", "--executor", "inline", "--pruner", "none")


@pytest.fixture
def mine(finder: Any) -> Any:
    (finder.folder / "mine.py").write_text(MINE)
    return finder


@pytest.mark.slow
def test_tune_prints_how_to_train_the_pick(mine: Any) -> None:
    ran = mine("tune", "mine.py:train", *QUICK, "--param", "learning_rate=1e-4:1e-1:log", "--n-trials", "8")
    assert ran.code == 0, ran.err
    assert "8 trials: 8 complete, 0 pruned, 0 failed" in ran.err
    assert "finder train" not in ran.err
    best = mine("best", "tune-train-CartPole-v1")
    assert (
        "with agents.TrainingRun('CartPole-v1', env_steps=1_000_000) as run:\n    train(run, learning_rate=" in best.out
    )
    assert "from mine import train" in best.out
    assert "finder train" not in best.err
    again = mine("train", "--from", "tune-train-CartPole-v1")
    assert again.code == 2
    assert "mine.py:train is a training function" in again.err
    assert "with agents.TrainingRun('CartPole-v1', env_steps=1_000_000) as run:" in again.err
    assert not (mine.folder / "runs").exists()
    assert (
        "with agents.TrainingRun(" in (mine.folder / mine("report", "tune-train-CartPole-v1").out.strip()).read_text()
    )


@pytest.mark.slow
def test_lr_searches_the_rate_of_a_training_function(mine: Any) -> None:
    words = ("--start-lr", "1e-3", "--end-lr", "1e-1", "--n-rates", "3", "--no-extend", "--json")
    ran = mine("lr", "mine.py:train", *QUICK, *words)
    assert ran.code == 0, ran.err
    assert ran.json["pick"]["params"] == {"learning_rate": 0.01}
    assert ran.json["pick"]["config"] == {"learning_rate": 0.01, "width": 8}


def test_study_file_runs_a_training_function(mine: Any) -> None:
    (mine.folder / "study.toml").write_text(TOML)
    ran = mine("run", "study.toml", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["trials"]["complete"] == 2
    (mine.folder / "study.toml").write_text(TOML.replace("[params]\n", "[params]\nwith = [1, 2]\n"))
    ran = mine("run", "study.toml")
    assert ran.code == 2
    assert "Unknown hyperparameter 'with' of train. Did you mean width?" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tune", "mine.py:train"), "declares no ranges: give the hyperparameters to search"),
        (("tune", "mine.py:trian"), "Training functions in it: train."),
        (("opt", "mine.py:train"), "its optimizer cannot be exchanged from outside"),
        (("lr", "mine.py:train", "--range-test"), "finder lr without --range-test"),
        (("train", "mine.py:train", "--set", "width=4"), "    train(run, learning_rate=0.0001, width=4)"),
    ],
)
def test_unsupported_use_of_a_training_function_is_explained(mine: Any, words: tuple[str, ...], message: str) -> None:
    ran = mine(*words, "--env", "CartPole-v1")
    assert ran.code == 2
    assert message in ran.err


def test_deprecated_short_flag_of_train_warns(mine: Any) -> None:
    ran = mine("train", "mine.py:train", "--set", "width=4", "-p", "learning_rate=1e-3", "--env", "CartPole-v1")
    assert "-p of finder train is deprecated" in ran.err
    assert "    train(run, learning_rate=0.001, width=4)" in ran.err
    assert "-p: --from trains the study's pick as it is" in mine("train", "--from", "s", "-p", "width=4").err
