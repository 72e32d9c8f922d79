"""Tests of `--num-threads`, in processes of their own: TensorFlow reads the number once."""

from __future__ import annotations

from typing import Any

import pytest

import studies

SEARCH = [
    "--env=CartPole-v1", "--seeds=1", "--confirm=0", "--env-steps=600", "--set=n_steps=16", "--set=hidden_sizes=[8]",
    "--storage=s.db", "--study-name=s", "--quiet",
]  # fmt: skip
STUDY = """
name = "s"
storage = "s.db"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 600
seeds = 1
n_trials = 1
confirm = 0
[params]
learning_rate = "1e-4:1e-2:log"
[fixed]
n_steps = 16
hidden_sizes = [8]
"""


def ran(finder: Any, *words: str) -> None:
    process = finder.start(*words)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def threads_of(finder: Any) -> set[int]:
    with studies.load_study("s", f"sqlite:///{finder.folder}/s.db") as study:
        return {trial.user_attrs["configuration"]["execution"]["threads"] for trial in study.all_trials()}


@pytest.mark.real
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_search_has_the_given_number_of_threads(finder: Any, executor: str) -> None:
    ran(finder, "lr", "ppo", "--num-threads", "1", "--n-rates=2", f"--executor={executor}", "--n-jobs=1", *SEARCH)
    assert threads_of(finder) == {1}


@pytest.mark.real
def test_study_of_a_file_has_the_given_number_of_threads(finder: Any) -> None:
    (finder.folder / "study.toml").write_text(STUDY)
    ran(finder, "run", "study.toml", "--num-threads", "1", "--quiet")
    assert threads_of(finder) == {1}


@pytest.mark.real
def test_worker_has_the_given_number_of_threads(finder: Any) -> None:
    (finder.folder / "study.toml").write_text(STUDY)
    assert finder("submit", "study.toml").code == 0
    ran(finder, "worker", "s", "--storage=s.db", "--num-threads", "1", "--quiet")
    assert threads_of(finder) == {1}


@pytest.mark.real
def test_long_run_has_the_given_number_of_threads(finder: Any) -> None:
    (finder.folder / "seen.py").write_text(
        "from agents import Callback\n"
        "from agents.backend.threads import threads_in_use\n"
        "class Seen(Callback):\n"
        "    def on_step_end(self, trainer):\n"
        "        open('threads', 'a').write(f'{threads_in_use()} ')\n"
    )
    small = ("--set=n_steps=16", "--set=hidden_sizes=[8]", "--folder=run", "--callback=seen.py:Seen", "--quiet")
    ran(finder, "train", "ppo", "--env=CartPole-v1", "--env-steps=128", "--num-threads", "1", *small)
    ran(finder, "train", "--resume=run", "--env-steps=256", "--num-threads", "2", "--quiet")
    assert list(dict.fromkeys((finder.folder / "threads").read_text().split())) == ["1", "2"]
