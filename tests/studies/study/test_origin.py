"""The origin of a study is the latest command, file or Python call that ran it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.study.origin import ORIGIN_ATTR, StudyOrigin, read_origin, started_by
from studies.study.study import load_study, with_longer_plan

COMMAND, FILE = StudyOrigin("command", ("lr", "ppo", "--n-rates", "3")), StudyOrigin("file", ("run", "study.toml"))


@pytest.fixture
def spec(tmp_path: Path) -> StudySpec:
    return StudySpec(
        name="s",
        storage=f"sqlite:///{tmp_path}/s.db",
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=100,
        trials=({"learning_rate": 0.1}, {"learning_rate": 0.2}),
    )


def test_origin_is_stored_before_the_first_trial(spec: StudySpec) -> None:
    with started_by(COMMAND), open_study(spec):
        pass
    with load_study(spec.name, spec.storage) as study:
        assert read_origin(study) == COMMAND
        assert not study.all_trials()


def test_origin_of_a_python_call_is_python(spec: StudySpec) -> None:
    with open_study(spec) as study:
        assert read_origin(study) == StudyOrigin("python")


@pytest.mark.parametrize("later", [FILE, StudyOrigin("command", ("lr", "ppo", "--n-rates", "9"))])
def test_origin_of_a_resumed_study_is_the_latest_call(spec: StudySpec, later: StudyOrigin) -> None:
    with started_by(COMMAND), open_study(spec) as study, Recorder(study) as recorder:
        assert recorder.ask() is not None
    with started_by(later), open_study(spec) as study:
        assert read_origin(study) == later
    with load_study(spec.name, spec.storage) as study:
        assert read_origin(study) == later


def test_call_that_only_adds_trials_keeps_the_words_of_the_plan(spec: StudySpec) -> None:
    added = spec.model_copy(update={"trials": ({"learning_rate": 0.3},)})
    more = StudyOrigin("command", ("lr", "ppo", "--rates", "3e-1"))
    longer = StudyOrigin("command", (*more.words, "--horizon", "9"))
    with started_by(COMMAND), open_study(spec) as study, Recorder(study) as recorder:
        assert recorder.ask() is not None
    with started_by(more), open_study(added) as study:
        assert len(study.spec.trials) == 3
        assert read_origin(study) == replace(more, plan_words=COMMAND.words)
    with started_by(longer), open_study(added) as study:
        assert read_origin(study) == replace(longer, plan_words=COMMAND.words)
    with started_by(longer), open_study(spec) as study:  # which plans the first trials again, and not the third
        assert read_origin(study) == replace(longer, plan_words=longer.words)
    with started_by(FILE), open_study(added) as study:
        assert read_origin(study) == replace(FILE, plan_words=())
    with started_by(FILE), open_study(study.spec) as study:
        assert read_origin(study) == FILE


def test_trials_beyond_the_range_of_a_call_are_no_part_of_another(spec: StudySpec) -> None:
    with started_by(COMMAND), open_study(spec) as study:
        with_longer_plan(study, [{"learning_rate": 0.4}])
    again = StudyOrigin("command", (*COMMAND.words, "--horizon", "9"))
    with started_by(again), open_study(spec) as study:
        assert len(study.spec.trials) == 3
        assert read_origin(study) == again


def test_call_that_repeats_a_part_of_the_plan_keeps_the_words_of_the_plan(spec: StudySpec) -> None:
    with started_by(COMMAND), open_study(spec):
        pass
    part = StudyOrigin("command", ("lr", "ppo", "--rates", "1e-1"))
    with started_by(part), open_study(spec.model_copy(update={"trials": spec.trials[:1]})) as study:
        assert len(study.spec.trials) == 2
        assert read_origin(study) == replace(part, plan_words=COMMAND.words)


def test_study_that_an_earlier_version_ran_has_no_origin_until_it_is_resumed(spec: StudySpec) -> None:
    with open_study(spec) as study, Recorder(study) as recorder:
        assert recorder.ask() is not None
        study.storage.optuna.set_study_user_attr(study.study._study_id, ORIGIN_ATTR, None)
    with load_study(spec.name, spec.storage) as study:
        assert read_origin(study) is None
    with started_by(COMMAND), open_study(spec) as study:
        assert read_origin(study) == COMMAND


@pytest.mark.parametrize("kept", [{"by": "a later interface", "words": []}, {"words": ["lr"]}, ["lr"], "command"])
def test_unreadable_origin_is_unknown(spec: StudySpec, kept: object) -> None:
    with open_study(spec) as study:
        study.storage.optuna.set_study_user_attr(study.study._study_id, ORIGIN_ATTR, kept)
        assert read_origin(study) is None


def test_origin_is_the_outermost_interface(spec: StudySpec) -> None:
    with started_by(FILE), started_by(COMMAND), open_study(spec) as study:
        assert read_origin(study) == FILE
