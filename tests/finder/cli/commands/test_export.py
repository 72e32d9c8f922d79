"""Tests of the command `export`."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from episode_count import n_episodes

import studies
from finder.results.export import _trials
from studies.recording.recorder import Recorder


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_trials_are_written_with_the_values_of_their_seeds(searched: Any, suffix: str) -> None:
    finder = searched.finder
    ran = finder("export", searched.study, "-o", f"trials.{suffix}")
    assert ran.code == 0, ran.err
    path = finder.folder / f"trials.{suffix}"
    assert ran.out.strip() == str(path.resolve())
    frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
    with studies.load_study(searched.study, f"sqlite:///{finder.folder}/finder.db") as study:
        assert list(frame["trial"]) == [trial.number for trial in study.all_trials()]
        pick = studies.best(study)
    row = frame[frame["pick"]].iloc[0]
    assert row["trial"] == pick.trial
    assert row["learning_rate"] == pytest.approx(pick.params["learning_rate"])
    assert row[["value_of_seed_0", "value_of_seed_1"]].mean() == pytest.approx(row["value"])
    confirming = frame[frame["confirms"].notna()]
    assert set(confirming["confirms"]) <= set(frame["trial"])
    assert (finder.folder / f"trials.{suffix}").exists()


def test_episodes_are_all_written(searched: Any) -> None:
    finder = searched.finder
    ran = finder("export", searched.study, "--episodes", "--output", "episodes.parquet")
    assert ran.code == 0, ran.err
    frame = pd.read_parquet(finder.folder / "episodes.parquet")
    with studies.load_study(searched.study, f"sqlite:///{finder.folder}/finder.db") as study:
        assert len(frame) == n_episodes(study.storage, study.episodes_key)
    assert {"trial", "seed", "episode", "env_steps", "episode_return", "length", "loss"} <= set(frame.columns)


def test_the_file_is_named_after_the_study_by_default(searched: Any) -> None:
    finder = searched.finder
    ran = finder("export", searched.study, "--storage", f"sqlite:///{finder.folder}/finder.db")
    assert ran.out.strip().endswith(f"/{searched.study}.csv")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("-o", "t.xlsx"), "must end in .csv or .parquet"), (("-o", "nowhere/t.csv"), "cannot be written")],
)
def test_files_that_cannot_be_written_are_a_mistake(searched: Any, words: tuple[str, ...], message: str) -> None:
    ran = searched.finder("export", searched.study, *words)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())


def test_study_without_trials_is_refused(finder: Any) -> None:
    spec = studies.StudySpec(
        name="empty", storage=f"sqlite:///{finder.folder}/finder.db", agents=("ppo",), env="CartPole-v1", env_steps=100,
        params={"gamma": "0.9:0.99"},
    )  # fmt: skip
    with studies.open_study(spec):
        pass
    ran = finder("export", "empty", "-o", "trials.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "The study 'empty' has no trials yet: there is nothing to export." in ran.err


def test_parameters_that_do_not_exist_in_a_trial_are_missing() -> None:
    spec = studies.StudySpec(
        name="s", storage="memory", agents=("ppo",), env="CartPole-v1", env_steps=100, sampler="grid", confirm=0,
        params={"optimizer": ["adam", "sgd"], "optimizer.nesterov": "true,false@optimizer=sgd"},
    )  # fmt: skip
    study = studies.open_study(spec)
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.completed(ask.number, 1.0, {0: 1.0})
    frame = _trials(study)
    missing = frame["optimizer.nesterov"].isna()
    assert list(frame["optimizer"][missing]) == ["adam"]
    assert sorted(frame["optimizer.nesterov"][~missing]) == ["false", "true"]
