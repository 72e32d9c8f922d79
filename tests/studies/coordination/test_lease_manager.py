"""Leases on trials and studies: acquiring, renewing, losing and taking over; owners; several recorders of a study."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from death import NO_PROCESS, simulate_crash

from studies.coordination import lease_manager
from studies.coordination.lease_manager import LEASE_SECONDS, PLANNING, STUDY, LeaseManager
from studies.coordination.owner import Owner
from studies.database.fencing import LeaseLostError
from studies.database.records import EpisodeRecord
from studies.database.schema import leases as lease_rows
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]


def on_another_machine(**changes: Any) -> Owner:
    """Return the owner of a process on another machine, whose state is unknown here."""
    return Owner.new()._replace(machine="another", host="far", **changes)


def hold(storage: StudyStorage, number: int, owner: Owner, seconds: float = LEASE_SECONDS) -> None:
    assert storage.leases.take("s", number, str(owner), seconds)


class TestEveryStorage:
    def test_lease_has_one_holder_until_it_is_released(self, storage: StudyStorage) -> None:
        with LeaseManager(storage.leases, "s") as one, LeaseManager(storage.leases, "s") as other:
            assert one.acquire(0) is None
            assert one.acquire(0) is None, "the holder must be able to acquire its lease again"
            holder = other.acquire(0)
            assert holder is not None
            assert holder.pid == os.getpid()
            assert other.acquire(1) is None
            assert one.leases_of_others().keys() == {1}
            assert one.release(0)
            assert not one.release(0)
            assert other.acquire(0) is None
        assert storage.leases.held("s") == {}

    def test_deadlines_use_the_clock_of_the_database(self, storage: StudyStorage) -> None:
        before = time.time()
        hold(storage, 3, on_another_machine(), 40.0)
        lease = storage.leases.held("s")[3]
        after = time.time()
        assert before - 1 <= lease.deadline - 40 <= after + 1  # databases may round to seconds
        assert 40 - (after - before) - 1 <= lease.seconds_left <= 40

    def test_renew_returns_the_leases_that_are_still_held(self, storage: StudyStorage) -> None:
        own, other = str(Owner.new()), str(Owner.new())
        for number, owner in enumerate([own, own, other]):
            assert storage.leases.take("s", number, owner, 1.0)
        assert storage.leases.renew("s", own, 50.0) == {0, 1}
        left = {number: lease.seconds_left for number, lease in storage.leases.held("s").items()}
        assert left[0] > 40
        assert left[2] <= 1.0
        storage.leases.delete("s")
        assert storage.leases.held("s") == {}

    def test_takeover_fails_if_the_lease_was_renewed_since_it_was_read(self, storage: StudyStorage) -> None:
        hold(storage, 0, on_another_machine(), -1.0)
        read = storage.leases.held("s")[0]
        assert storage.leases.renew("s", read.owner, 1.0) == {0}
        assert not storage.leases.take("s", 0, str(Owner.new()), 60.0, instead_of=read), (
            "a renewed lease must not be taken"
        )
        again = storage.leases.held("s")[0]
        assert storage.leases.take("s", 0, str(Owner.new()), 60.0, instead_of=again)

    def test_planning_lease_is_exclusive(self, storage: StudyStorage) -> None:
        inside, most, done = 0, 0, 0

        def plan() -> None:
            nonlocal inside, most, done
            with LeaseManager(storage.leases, "s") as own:
                for _ in range(5):
                    with own.planning():
                        inside += 1
                        most = max(most, inside)
                        time.sleep(0.001)
                        inside -= 1
                        done += 1

        threads = [threading.Thread(target=plan) for _ in range(3)]
        if storage.url == "memory":  # storage in memory is not shared
            threads = threads[:1]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (most, done) == (1, 5 * len(threads))


def test_process_that_waits_for_a_lease_writes_nothing(storage: StudyStorage) -> None:
    hold(storage, PLANNING, on_another_machine())
    statements: list[str] = []
    with LeaseManager(storage.leases, "s") as own:
        sa.event.listen(storage.episodes.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
        for _ in range(3):
            assert own.acquire(PLANNING) is not None
    assert len(statements) == 6
    assert all(statement.startswith("SELECT") for statement in statements)


def test_lease_of_a_dead_process_on_this_machine_can_be_taken(storage: StudyStorage) -> None:
    hold(storage, 0, Owner.new()._replace(pid=NO_PROCESS))
    with LeaseManager(storage.leases, "s") as own:
        assert own.leases_of_others() == {}
        assert own.acquire(0) is None


@pytest.mark.slow
def test_reused_process_id_is_another_owner(storage: StudyStorage) -> None:
    hold(storage, 0, Owner.new()._replace(started="1"))
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is None


def test_expired_lease_of_another_machine_is_watched_before_takeover(
    storage: StudyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.3)
    hold(storage, 0, on_another_machine(pid=NO_PROCESS), LEASE_SECONDS)
    hold(storage, 1, on_another_machine(pid=NO_PROCESS), -1e4)
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is not None
        assert own.acquire(1) is not None, "an expired lease must be watched before it is taken"
        time.sleep(0.4)
        assert own.acquire(0) is not None
        assert own.acquire(1) is None


def test_lease_renewed_while_watched_is_kept(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.2)
    slow = on_another_machine()
    hold(storage, 0, slow, -5.0)
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is not None
        storage.leases.renew("s", str(slow), LEASE_SECONDS)
        time.sleep(0.3)
        assert own.acquire(0) is not None


def test_held_leases_are_renewed_by_a_thread(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
    with LeaseManager(storage.leases, "s") as own:
        own.acquire(0)
        begun = storage.leases.held("s")[0].deadline
        own.start_renewing()
        deadline = time.monotonic() + 30
        while storage.leases.held("s")[0].deadline <= begun and time.monotonic() < deadline:
            time.sleep(0.05)
        assert storage.leases.held("s")[0].deadline > begun


def test_pop_lost_returns_leases_that_were_taken_over(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
    with LeaseManager(storage.leases, "s") as own:
        own.acquire(0)
        own.acquire(1)
        storage.leases.take("s", 0, str(on_another_machine()), 60.0, instead_of=storage.leases.held("s")[0])
        own.start_renewing()
        deadline = time.monotonic() + 30
        while not (lost := own.pop_lost()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert lost == {0}
        assert own.pop_lost() == set()
        assert own.holds(1)
        assert not own.holds(0)


def test_lost_planning_lease_raises_on_exit(storage: StudyStorage) -> None:
    with LeaseManager(storage.leases, "s") as own:
        planning = own.planning()
        planning.__enter__()
        storage.leases.take(
            "s", PLANNING, str(on_another_machine()), 60.0, instead_of=storage.leases.held("s")[PLANNING]
        )
        with pytest.raises(LeaseLostError):
            planning.__exit__(None, None, None)


def test_owner_round_trips_through_text() -> None:
    own = Owner.new()
    assert Owner.read(str(own)) == own
    assert own.is_this_process
    assert not own.is_dead
    assert not on_another_machine(pid=NO_PROCESS).is_dead
    assert len(str(own)) < 255


def test_owner_detects_living_and_dead_processes() -> None:
    code = "from studies.coordination.owner import Owner; import sys; print(Owner.new(), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        owner = Owner.read(other.stdout.readline().strip())
        assert not owner.is_dead
        assert not owner.is_this_process
        other.kill()
        other.wait()
        assert owner.is_dead


@pytest.mark.parametrize("storage_url", [pytest.param("postgresql", marks=pytest.mark.real)], indirect=True)
class TestSeveralRecorders:
    """Several recorders of one study, as on several machines."""

    def test_plan_is_divided_between_recorders_without_duplicates(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [{"learning_rate": 10.0**-k} for k in range(1, 7)]
        lead = Recorder(open_study(make_spec(params={}, trials=rows), storage))
        helper = Recorder(join_study("a study", storage))
        begun = [recorder.ask() for _ in range(3) for recorder in (lead, helper)]
        assert sorted(ask.params["learning_rate"] for ask in begun if ask) == sorted(10.0**-k for k in range(1, 7))
        assert lead.ask() is None
        assert helper.ask() is None
        assert lead.n_elsewhere == helper.n_elsewhere == 3
        for number, ask in enumerate(begun):
            assert ask is not None
            (lead, helper)[number % 2].completed(ask.number, 1.0, {0: 1.0})
        lead.close()
        helper.close()

    def test_running_trial_is_not_taken_over(self, storage: StudyStorage, make_spec: Make) -> None:
        lead = Recorder(open_study(make_spec(n_trials=1), storage))
        slow = lead.ask()
        assert slow is not None
        with Recorder(join_study("a study", storage)) as helper:
            assert helper.ask() is None
            assert helper.refresh().trials()[0].state.name == "RUNNING"
        lead.completed(slow.number, 1.0)
        lead.close()

    def test_trial_of_a_dead_process_is_resumed_by_another(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
    ) -> None:
        study = open_study(make_spec(n_trials=1), storage)
        dead = Recorder(study)
        first = dead.ask()
        assert first is not None
        dead.started(first.number, {})
        dead.episodes(first.number, [episode()])
        dead.flush()
        simulate_crash(study)
        with Recorder(join_study("a study", storage)) as helper:
            again = helper.ask()
            assert again == first
            helper.started(again.number, {})
            helper.completed(again.number, 2.0)
            assert storage.episodes.curve(study.episodes_key, 0) == []

    def test_recorder_with_a_lost_lease_cannot_write(
        self,
        storage: StudyStorage,
        make_spec: Make,
        episode: Callable[..., EpisodeRecord],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
        study = open_study(make_spec(n_trials=1), storage)
        recorder = Recorder(study)
        ask = recorder.ask()
        assert ask is not None
        deadline = time.monotonic() + 30
        taken = False
        while not taken and time.monotonic() < deadline:  # the recorder may renew its lease between these two calls
            read = storage.leases.held(study.episodes_key)[ask.number]
            taken = storage.leases.take(
                study.episodes_key, ask.number, str(on_another_machine()), 60.0, instead_of=read
            )
        assert taken
        while ask.number not in recorder.rung(100, {ask.number: {0: 1.0}}) and time.monotonic() < deadline:
            time.sleep(0.05)
        recorder.episodes(ask.number, [episode()])
        recorder.completed(ask.number, 9.0)
        recorder.close()
        assert [trial.state.name for trial in study.trials()] == ["RUNNING"], "the trial must keep running elsewhere"
        assert storage.episodes.curve(study.episodes_key, ask.number) == []

    def test_worker_sees_rows_added_by_the_lead(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [{"learning_rate": 1e-3}]
        lead = Recorder(open_study(make_spec(params={}, trials=rows), storage))
        first = lead.ask()
        assert first is not None
        with Recorder(join_study("a study", storage)) as helper:
            assert helper.ask() is None
            lead.completed(first.number, 1.0)
            lead.extend_plan([{"learning_rate": 1e-2}, {"learning_rate": 1e-1}])
            helper.refresh()
            asks = [lead.ask(), helper.ask(), helper.ask()]
            assert [ask and ask.params["learning_rate"] for ask in asks] == [1e-2, 1e-1, None]
            assert helper.queue.is_led_elsewhere
            assert not lead.queue.is_led_elsewhere
        lead.close()

    def test_share_leaves_trials_for_other_workers(self, storage: StudyStorage, make_spec: Make) -> None:
        open_study(make_spec(n_trials=12), storage).close()
        one, other = Recorder(join_study("a study", storage)), Recorder(join_study("a study", storage))
        assert one.queue.share == 6
        for _ in range(6):
            one.ask()
        assert other.queue.share == 2
        one.close()
        other.close()
        with open_study(make_spec(n_trials=12), storage) as study, Recorder(study) as lead:
            assert lead.queue.share is None

    def test_second_lead_raises(self, storage: StudyStorage, make_spec: Make) -> None:
        open_study(make_spec(), storage)
        key = open_study(make_spec(), storage).episodes_key
        with storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
            other = str(on_another_machine(pid=7))
            connection.execute(sa.update(lease_rows).where(lease_rows.c.number == STUDY).values(owner=other))
        assert STUDY in storage.leases.held(key)
        with pytest.raises(Exception, match=r"being run by process 7 on far: help it \(finder worker 'a study'"):
            open_study(make_spec(), storage)
