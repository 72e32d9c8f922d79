"""Fencing: a process whose lease was taken over while it was suspended can no longer write to the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from optuna.trial import TrialState

from studies.coordination import lease_manager
from studies.coordination.lease_manager import PLANNING, LeaseManager
from studies.coordination.owner import Owner
from studies.database.fencing import LeaseLostError
from studies.database.records import EpisodeRecord
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.recording.writer import FLUSH_ROWS
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
MakeEpisode = Callable[..., EpisodeRecord]
ANOTHER = str(Owner.new()._replace(machine="another", host="far"))

WRITES: dict[str, Callable[[Recorder, EpisodeRecord], Any]] = {
    "configuration": lambda recorder, _: recorder.started(0, {"of": "the one that was away"}),
    "report": lambda recorder, _: recorder.rung(100, {0: {0: 9.0}}),
    "episodes": lambda recorder, record: recorder.episodes(0, [record] * FLUSH_ROWS),
    "completed": lambda recorder, _: recorder.completed(0, 9.0, {0: 9.0}),
    "pruned": lambda recorder, _: recorder.pruned(0, 100, 9.0),
    "failed": lambda recorder, _: recorder.failed(0, "it broke"),
    "interrupted": lambda recorder, _: recorder.interrupted(0),
    "closed": lambda recorder, _: recorder.close(),
}


@pytest.fixture(autouse=True)
def no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the renewal thread from noticing the lost lease before the write."""
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 3600.0)


def take_over(study: OpenStudy, number: int) -> None:
    leases, key = study.storage.leases, study.episodes_key
    assert leases.take(key, number, ANOTHER, 60.0, instead_of=leases.held(key)[number])


def stored_state(study: OpenStudy) -> Any:
    (trial,) = study.all_trials()
    whole = (trial.state, trial.values, trial.params, trial.user_attrs, trial.system_attrs, trial.intermediate_values)
    return repr((*whole, study.storage.episodes.curve(study.episodes_key, 0)))


class TestEveryStorage:
    @pytest.mark.parametrize("write", WRITES)
    def test_expired_lease_cannot_write_trial(
        self, storage: StudyStorage, make_spec: Make, episode: MakeEpisode, write: str
    ) -> None:
        study = open_study(make_spec(n_trials=2), storage)
        recorder = Recorder(study)
        assert recorder.ask() is not None
        recorder.started(0, {"of": "the first one"})
        recorder.rung(50, {0: {0: 1.0}})
        recorder.episodes(0, [episode()])
        recorder.flush()
        take_over(study, 0)
        before = stored_state(study)
        WRITES[write](recorder, episode(episode_return=9.0))
        assert stored_state(study) == before
        assert storage.leases.held(study.episodes_key)[0].owner == ANOTHER
        recorder.close()
        assert stored_state(study) == before

    def test_trials_with_a_valid_lease_are_still_written(
        self, storage: StudyStorage, make_spec: Make, episode: MakeEpisode
    ) -> None:
        study = open_study(make_spec(n_trials=2), storage)
        with Recorder(study) as recorder:
            recorder.ask(), recorder.ask()
            take_over(study, 0)
            recorder.episodes(0, [episode()])
            recorder.episodes(1, [episode()])
            recorder.flush()
            assert recorder.rung(100, {0: {0: 1.0}, 1: {0: 1.0}}) == {0}
            recorder.completed(1, 2.0)
        assert storage.episodes.curves(study.episodes_key).keys() == {1}
        assert study.trials()[1].value == 2.0
        assert study.trials()[0].intermediate_values == {}

    def test_expired_planning_lease_cannot_start_trial(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(n_trials=2), storage)
        assert study.leases is not None

        def plan(leases: LeaseManager) -> None:
            with leases.planning():
                take_over(study, PLANNING)
                study.study.ask()

        with pytest.raises(LeaseLostError):
            plan(study.leases)
        assert study.all_trials() == []

    def test_reacquired_lease_has_another_epoch_and_rejects_old_writes(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        study = open_study(make_spec(n_trials=2), storage)
        leases, key, recorder = storage.leases, study.episodes_key, Recorder(study)
        assert recorder.ask() is not None
        first = leases.held(key)[0]
        take_over(study, 0)
        assert leases.take(key, 0, first.owner, 60.0, instead_of=leases.held(key)[0]) > first.epoch
        before = stored_state(study)
        recorder.completed(0, 9.0)
        recorder.close()
        assert stored_state(study) == before

    def test_epochs_increase_after_release(self, storage: StudyStorage) -> None:
        leases = storage.leases
        assert leases.take("s", 0, "one", 60.0) == 1
        assert leases.take("s", 0, "another", 60.0) == 0, "a lease that is held must not be taken"
        assert leases.release("s", 0, "one")
        assert leases.held("s") == {}
        assert leases.take("s", 0, "another", 60.0) == 2
        assert leases.take("s", 0, "one", 60.0, instead_of=leases.held("s")[0]) == 3
        assert leases.held("s")[0].epoch == 3
        assert leases.epochs("s") == {0: 3}

    @pytest.mark.between_processes
    def test_new_lease_holder_writes_while_old_writes_are_rejected(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease_manager.LeaseManager, "_is_over", lambda *_: True)
        first = open_study(make_spec(n_trials=1), storage)
        away = Recorder(first)
        assert away.ask() is not None
        monkeypatch.setattr(Owner, "is_this_process", property(lambda _: False))
        with Recorder(open_study(make_spec(n_trials=1), storage)) as successor:
            assert successor.ask() is not None
            successor.started(0, {"of": "the successor"})
            away.completed(0, 9.0, {0: 9.0})
            successor.completed(0, 2.0, {0: 2.0})
        (trial,) = first.trials()
        assert (trial.value, trial.user_attrs["configuration"]) == (2.0, {"of": "the successor"})
        assert trial.user_attrs["seed_values"] == {"0": 2.0}


def test_trial_ended_by_another_program_raises_no_error(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(n_trials=2), storage)
    with Recorder(study) as recorder:
        assert recorder.ask() is not None
        storage.optuna.set_trial_state_values(study.all_trials()[0]._trial_id, TrialState.FAIL)
        assert recorder.rung(100, {0: {0: 1.0}}) == {0}
        recorder.completed(0, 9.0)
        assert recorder.ask() is not None
        recorder.completed(1, 2.0)
    assert [trial.value for trial in study.trials()] == [None, 2.0]


def test_user_attributes_are_written_without_a_lease(storage: StudyStorage, make_spec: Make) -> None:
    with open_study(make_spec(), storage) as study:
        pass
    study.study.set_user_attr("a note", "of a person")
    assert join_study("a study", storage).study.user_attrs["a note"] == "of a person"
