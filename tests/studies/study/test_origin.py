"""How a study was begun is kept from its beginning, and stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.study.origin import ORIGIN_ATTR, StudyOrigin, read_origin, started_by
from studies.study.study import load_study

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


def test_a_study_keeps_how_it_was_begun_before_anything_ran(spec: StudySpec) -> None:
    with started_by(COMMAND), open_study(spec):
        pass
    with load_study(spec.name, spec.storage) as study:
        assert read_origin(study) == COMMAND
        assert not study.all_trials()


def test_a_study_of_a_call_in_python_is_one(spec: StudySpec) -> None:
    with open_study(spec) as study:
        assert read_origin(study) == StudyOrigin("python")


def test_what_goes_on_with_a_study_does_not_change_how_it_was_begun(spec: StudySpec) -> None:
    with started_by(COMMAND), open_study(spec) as study, Recorder(study) as recorder:
        assert recorder.ask() is not None
    with open_study(spec) as study:
        assert read_origin(study) == COMMAND
    with started_by(FILE), open_study(spec) as study:
        assert read_origin(study) == COMMAND


def test_of_a_study_of_an_earlier_version_nothing_is_guessed(spec: StudySpec) -> None:
    with open_study(spec) as study, Recorder(study) as recorder:
        assert recorder.ask() is not None
        study.storage.optuna.set_study_user_attr(study.study._study_id, ORIGIN_ATTR, None)
    with started_by(COMMAND), open_study(spec) as study:
        assert read_origin(study) is None


def test_the_outermost_interface_is_the_one_that_a_person_spoke(spec: StudySpec) -> None:
    with started_by(FILE), started_by(COMMAND), open_study(spec) as study:
        assert read_origin(study) == FILE
