"""A process that resumes after it was suspended or disconnected for longer than its leases last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from optuna.trial import TrialState

from studies.analysis.status import study_status
from studies.coordination import lease_manager
from studies.coordination.lease_manager import PLANNING, LeaseManager
from studies.coordination.owner import Owner
from studies.queue import trial_source
from studies.queue.trial_endings import completion
from studies.queue.trial_states import requeue_abandoned
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.recording.spool import Spool
from studies.spec.attributes import HELD_ATTR
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy, load_study

Make = Callable[..., StudySpec]
ROWS = [{"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2)]
ANOTHER = str(Owner.new()._replace(machine="another", host="far"))


def lose_planning_lease(study: OpenStudy) -> None:
    """Release the planning lease of this process, as if another process had planned while this one was suspended."""
    assert study.leases is not None
    assert study.storage.leases.release(study.episodes_key, PLANNING, str(study.leases._own))


def lose_planning_lease_once(study: OpenStudy, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Lose the planning lease during the first call of `owner.name`."""
    call, pending = getattr(owner, name), [True]

    def suspended(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if pending:
            pending.clear()
            lose_planning_lease(study)
        return result

    monkeypatch.setattr(owner, name, suspended)


def take_by_another(study: OpenStudy, number: int) -> None:
    """Let another process take the lease of a trial that this process runs and renews in a thread."""
    leases, key = study.storage.leases, study.episodes_key
    while not leases.take(key, number, ANOTHER, 60.0, instead_of=leases.held(key)[number]):
        pass


def wait_for_lost_lease(recorder: Recorder, number: int) -> None:
    """Wait until the recorder has noticed that its lease of a trial is lost."""
    deadline = time.monotonic() + 30
    while number not in recorder.rung(100, {number: {0: 1.0}}):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def requeue_by_another(study: OpenStudy, number: int) -> None:
    """Let another process put a trial back into the queue."""
    trial_id = study.all_trials()[number]._trial_id
    study.storage.optuna.set_trial_state_values(trial_id, TrialState.WAITING)


def stop_by_another(study: OpenStudy, number: int) -> None:
    """Let another process put a trial back into the queue and release its lease, as Ctrl-C does."""
    requeue_by_another(study, number)
    assert study.storage.leases.release(study.episodes_key, number, ANOTHER)


@pytest.fixture
def renewing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)


@pytest.mark.usefixtures("renewing")
class TestLostTrialIsReturned:
    @pytest.mark.parametrize("end", ["completed", "pruned", "failed", "interrupted"])
    @pytest.mark.parametrize("planned", [True, False])
    def test_lost_trial_is_proposed_again_after_its_old_run_has_ended(
        self, storage: StudyStorage, make_spec: Make, end: str, planned: bool
    ) -> None:
        plan = {"params": {}, "trials": ROWS[:1]} if planned else {"n_trials": 1}
        study = open_study(make_spec(confirm=0, **plan), storage)
        with Recorder(study) as recorder:
            first = recorder.ask()
            assert first is not None
            take_by_another(study, first.number)
            wait_for_lost_lease(recorder, first.number)
            stop_by_another(study, first.number)
            assert recorder.ask() is None, "the trial must not be proposed while its old run continues"
            assert recorder.queue.n_left == 1
            arguments = {"completed": (9.0,), "pruned": (100, 9.0), "failed": ("it broke",), "interrupted": ()}
            getattr(recorder, end)(first.number, *arguments[end])
            assert recorder.ask() == first
            recorder.started(first.number, {"again": True})
            assert recorder.rung(100, {first.number: {0: 1.0}}) == set()
            recorder.completed(first.number, 5.0, {0: 5.0})
            assert recorder.ask() is None
        (trial,) = study.trials()
        assert (trial.state.name, trial.value, trial.user_attrs["configuration"]) == ("COMPLETE", 5.0, {"again": True})
        assert study_status(study).all_ended

    def test_lost_trial_is_not_proposed_before_the_loss_is_noticed(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease_manager.LeaseManager, "pop_lost", lambda _: set())
        study = open_study(make_spec(params={}, trials=ROWS[:1]), storage)
        recorder = Recorder(study)
        first = recorder.ask()
        assert first is not None
        take_by_another(study, first.number)
        stop_by_another(study, first.number)
        assert recorder.ask() is None
        recorder.close()

    def test_lost_confirmation_is_proposed_again_after_its_old_run_has_ended(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS[:2], confirm=1, seeds=(0,)), storage)
        with Recorder(study) as recorder:
            for value in (1.0, 2.0):
                recorder.completed(recorder.ask().number, value, {0: value})  # type: ignore[union-attr]
            assert len(recorder.to_confirm()) == 1
            first = recorder.ask_confirmation()
            assert first is not None
            take_by_another(study, first.number)
            wait_for_lost_lease(recorder, first.number)
            stop_by_another(study, first.number)
            assert recorder.ask_confirmation() is None
            recorder.interrupted(first.number)
            assert len(recorder.to_confirm()) == 1
            assert recorder.ask_confirmation() == first
            recorder.completed(first.number, 2.0, dict.fromkeys(first.seeds, 2.0))
            assert len(recorder.to_confirm()) == 0
        assert study_status(study).complete


def expire(study: OpenStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all leases of a study expire, as if its process had been disconnected for a long time."""
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.0)
    key, leases = study.episodes_key, study.storage.leases
    for lease in leases.held(key).values():
        leases.renew(key, lease.owner, -1.0)


class TestTrialsRequeuedMeanwhile:
    """A process returns whose trials another one has requeued, but not taken yet."""

    def test_trials_are_dropped_and_the_study_goes_on(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS, confirm=0), storage)
        with Recorder(study) as away:
            for number in range(3):
                assert away.ask().number == number  # type: ignore[union-attr]
            expire(study, monkeypatch)
            with LeaseManager(storage.leases, study.episodes_key) as leases, leases.planning():
                requeue_abandoned(load_study(study.name, storage).study, leases)
            assert {trial.state for trial in study.trials()} == {TrialState.WAITING}
            away.completed(0, 9.0, {0: 9.0})
            assert 1 in away.rung(100, {1: {0: 9.0}})
            away.interrupted(1)
            assert {trial.state for trial in study.trials()} == {TrialState.WAITING}, "nothing of it is stored"
            assert away.ask().number == 0  # type: ignore[union-attr]
            away.completed(0, 1.0, {0: 1.0})
        assert [trial.value for trial in study.trials()] == [1.0, None, None]

    def test_spooled_results_are_stored_unless_another_process_has_restarted_the_trial(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS[:2], confirm=0), storage)
        away = Recorder(study)
        for number in range(2):
            assert away.ask().number == number  # type: ignore[union-attr]
            away._writer._keep(number, completion(9.0, {0: 9.0}, {}))
        expire(study, monkeypatch)
        with LeaseManager(storage.leases, study.episodes_key) as leases, leases.planning():
            requeue_abandoned(load_study(study.name, storage).study, leases)
            assert leases.acquire(1) is None
        with Recorder(open_study(study.spec, storage)) as other:
            assert other.spool_path is None
            assert [trial.value for trial in study.trials()] == [9.0, None]
            assert other.ask().number == 1  # type: ignore[union-attr]


def test_trial_is_not_resumed_before_the_process_that_requeues_it_has_released_its_lease(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the last write of that process would mark a running trial as one that Finder does not run."""
    open_study(make_spec(params={}, trials=ROWS[:1], confirm=0), storage).close()
    with Recorder(join_study("a study", storage)) as first, Recorder(join_study("a study", storage)) as second:
        ask = first.ask()
        assert ask is not None
        set_state, found = first._study.study._storage._storage.set_trial_state_values, []  # type: ignore[attr-defined]

        def requeued(*args: Any) -> Any:
            result = set_state(*args)
            found.append(second.ask())
            return result

        with monkeypatch.context() as patch:
            patch.setattr(first._study.study._storage._storage, "set_trial_state_values", requeued, raising=False)
            first.interrupted(ask.number)
        assert found == [None]
        again = second.ask()
        assert again is not None
        [trial] = second.study.trials()
        assert (trial.state, trial.system_attrs[HELD_ATTR]) == (TrialState.RUNNING, True)
        second.completed(again.number, 1.0, {0: 1.0})


class TestPlanningByAnotherProcess:
    def test_resumed_trial_is_run_by_the_lease_holder(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS), storage)
        with Recorder(study) as recorder:
            first = recorder.ask()
            assert first is not None
            recorder.interrupted(first.number)
            lose_planning_lease_once(study, monkeypatch, recorder.queue.source, "take")
            assert recorder.ask() == first
            recorder.completed(first.number, 1.0)
        assert study.trials()[0].state.name == "COMPLETE"

    @pytest.mark.slow
    @pytest.mark.parametrize("by", ["a process that waits", "a process that runs it"])
    def test_trial_requeued_or_started_by_another_process_is_not_run_twice(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch, by: str
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS[:1]), storage)
        with Recorder(study) as recorder:
            first = recorder.ask()
            assert first is not None
            recorder.interrupted(first.number)
            take = recorder.queue.source.take

            def suspended(*args: Any) -> Any:
                monkeypatch.setattr(recorder.queue.source, "take", take)
                found = take(*args)
                lose_planning_lease(study)
                if by == "a process that waits":
                    requeue_by_another(study, 0)
                else:
                    take_by_another(study, 0)
                return found

            monkeypatch.setattr(recorder.queue.source, "take", suspended)
            assert recorder.ask() == first
            recorder.started(0, {"of": "this process"})
            [trial] = study.trials()
            assert trial.state.name == "RUNNING"
            assert ("configuration" in trial.user_attrs) == (by == "a process that waits")

    @pytest.mark.parametrize("when", ["before its trial is created", "after its trial is created"])
    def test_plan_is_complete_after_the_planning_lease_was_lost(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS), storage)
        with Recorder(study) as recorder:
            if when == "after its trial is created":
                lose_planning_lease_once(study, monkeypatch, recorder.queue.source, "take")
            else:
                lose_planning_lease_once(study, monkeypatch, recorder.queue.source, "_refresh")
            for value, ask in enumerate(iter(recorder.ask, None)):
                recorder.completed(ask.number, float(value))
        complete = [trial.params for trial in study.trials(TrialState.COMPLETE)]
        assert complete == ROWS
        assert study_status(study).n_again == 0

    def test_reads_are_repeated_after_the_planning_lease_was_lost(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS[:2], confirm=1, seeds=(0,)), storage)
        lose_planning_lease_once(study, monkeypatch, Spool, "read")
        with Recorder(study):
            pass
        study = open_study(study.spec, storage)
        lose_planning_lease_once(study, monkeypatch, trial_source, "rows_left")
        with Recorder(study) as recorder:
            assert recorder.queue.n_left == 2
            for value in (1.0, 2.0):
                recorder.completed(recorder.ask().number, value, {0: value})  # type: ignore[union-attr]
            lose_planning_lease_once(study, monkeypatch, recorder.queue._confirmations, "pending")
            assert len(recorder.to_confirm()) == 1
            lose_planning_lease_once(study, monkeypatch, storage.optuna, "get_study_user_attrs")
            assert recorder.refresh().spec == study.spec

    def test_plan_is_extended_once(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = open_study(make_spec(params={}, trials=ROWS[:1]), storage)
        with Recorder(study) as recorder:
            recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
            lose_planning_lease_once(study, monkeypatch, storage.optuna, "set_study_user_attr")
            assert list(recorder.extend_plan(ROWS[1:]).spec.trials) == ROWS
            assert list(recorder.refresh().spec.trials) == ROWS
            assert recorder.queue.n_left == 2
