"""Writes of several values at once: the same in every storage as Optuna's writes of one value at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import optuna
import pytest
import sqlalchemy as sa
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]


@pytest.fixture
def study(storage: StudyStorage) -> optuna.Study:
    return optuna.create_study(storage=storage.optuna, study_name="mine")


class TestEveryStorage:
    def test_values_of_several_trials_at_one_step(self, storage: StudyStorage, study: optuna.Study) -> None:
        first, second, third = (study.ask() for _ in range(3))
        second.report(0.5, step=5)
        storage.trial_writes.report(10, {first._trial_id: 1.25, second._trial_id: -3.0})
        storage.trial_writes.report(20, {first._trial_id: 2.0})
        assert [trial.intermediate_values for trial in study.get_trials()] == [
            {10: 1.25, 20: 2.0},
            {5: 0.5, 10: -3.0},
            {},
        ]
        assert third.number == 2

    def test_repeated_writes_replace_values(self, storage: StudyStorage, study: optuna.Study) -> None:
        trial = study.ask()
        for value in (1.0, 4.0):
            storage.trial_writes.report(10, {trial._trial_id: value})
            storage.trial_writes.set_user_attrs(trial._trial_id, {"value": value, "same": [1, {"a": None}]})
        storage.trial_writes.set_user_attrs(trial._trial_id, {})
        [found] = study.get_trials()
        assert found.intermediate_values == {10: 4.0}
        assert found.user_attrs == {"value": 4.0, "same": [1, {"a": None}]}

    def test_trials_that_have_ended_are_not_changed(self, storage: StudyStorage, study: optuna.Study) -> None:
        ended, running = study.ask(), study.ask()
        study.tell(ended, 1.0)
        with pytest.raises(UpdateFinishedTrialError):
            storage.trial_writes.report(10, {ended._trial_id: 2.0, running._trial_id: 2.0})
        with pytest.raises(UpdateFinishedTrialError):
            storage.trial_writes.set_user_attrs(ended._trial_id, {"late": True})
        assert [trial.intermediate_values for trial in study.get_trials()] == [{}, {}]
        assert not study.get_trials()[0].user_attrs

    def test_unknown_trials_are_refused(self, storage: StudyStorage, study: optuna.Study) -> None:
        with pytest.raises(KeyError):
            storage.trial_writes.report(10, {999_999: 2.0})


def ask(recorder: Recorder) -> int:
    asked = recorder.ask()
    assert asked is not None
    recorder.started(asked.number, {})
    return asked.number


def test_values_of_a_rung_are_written_in_one_transaction(storage_url: str, make_spec: Make) -> None:
    statements: list[str] = []
    with open_study(make_spec(storage=storage_url)) as study, Recorder(study) as recorder:
        numbers = [ask(recorder) for _ in range(4)]

        @sa.event.listens_for(sa.Engine, "begin")
        def count(_connection: sa.Connection) -> None:
            statements.append("begin")

        try:
            recorder.rung(100, {number: {0: float(number)} for number in numbers})
        finally:
            sa.event.remove(sa.Engine, "begin", count)
        found = [trial.intermediate_values for trial in study.trials()]
    assert found == [{100: float(number)} for number in numbers]
    assert len(statements) == 1


def test_trial_that_another_program_ended_does_not_keep_others_from_their_values(
    storage_url: str, make_spec: Make
) -> None:
    with open_study(make_spec(storage=storage_url)) as study, Recorder(study) as recorder:
        numbers = [ask(recorder) for _ in range(3)]
        trial_id = study.trials()[1]._trial_id
        study.storage.optuna.set_trial_state_values(trial_id, TrialState.FAIL)
        stopped = recorder.rung(100, {number: {0: 1.0, 1: math.nan} for number in numbers})
        stopped |= recorder.rung(200, {number: {0: 2.0} for number in numbers})
        found = [trial.intermediate_values for trial in study.trials()]
    assert stopped == {1}
    assert [own.get(200) for own in found] == [2.0, None, 2.0]
