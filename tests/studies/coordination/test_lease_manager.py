"""Who holds what of a study: leases, their owners, and what becomes of them."""

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
from death import NO_PROCESS, die

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


def elsewhere(**changes: Any) -> Owner:
    """A process of another machine, of which nobody here knows whether it lives."""
    return Owner.new()._replace(machine="another", host="far", **changes)


def hold(storage: StudyStorage, number: int, owner: Owner, seconds: float = LEASE_SECONDS) -> None:
    assert storage.leases.take("s", number, str(owner), seconds)


class TestEveryStorage:
    def test_one_of_two_takes_it_and_gives_it_back(self, storage: StudyStorage) -> None:
        with LeaseManager(storage.leases, "s") as one, LeaseManager(storage.leases, "s") as other:
            assert one.acquire(0) is None
            assert one.acquire(0) is None, "what is ours stays ours"
            holder = other.acquire(0)
            assert holder is not None
            assert holder.pid == os.getpid()
            assert other.acquire(1) is None
            assert one.held_by_others().keys() == {1}
            assert one.release(0)
            assert not one.release(0)
            assert other.acquire(0) is None
        assert storage.leases.held("s") == {}

    def test_time_is_the_databases(self, storage: StudyStorage) -> None:
        before = time.time()
        hold(storage, 3, elsewhere(), 40.0)
        lease = storage.leases.held("s")[3]
        after = time.time()
        assert before - 1 <= lease.deadline - 40 <= after + 1  # databases may round to seconds
        assert 40 - (after - before) - 1 <= lease.seconds_left <= 40

    def test_renewing_tells_what_is_still_held(self, storage: StudyStorage) -> None:
        own, other = str(Owner.new()), str(Owner.new())
        for number, owner in enumerate([own, own, other]):
            assert storage.leases.take("s", number, owner, 1.0)
        assert storage.leases.renew("s", own, 50.0) == {0, 1}
        left = {number: lease.seconds_left for number, lease in storage.leases.held("s").items()}
        assert left[0] > 40
        assert left[2] <= 1.0
        storage.leases.delete("s")
        assert storage.leases.held("s") == {}

    def test_a_takeover_needs_the_lease_as_it_was_read(self, storage: StudyStorage) -> None:
        hold(storage, 0, elsewhere(), -1.0)
        read = storage.leases.held("s")[0]
        assert storage.leases.renew("s", read.owner, 1.0) == {0}
        assert not storage.leases.take("s", 0, str(Owner.new()), 60.0, instead_of=read), "it was renewed meanwhile"
        again = storage.leases.held("s")[0]
        assert storage.leases.take("s", 0, str(Owner.new()), 60.0, instead_of=again)

    def test_planning_is_for_one_at_a_time(self, storage: StudyStorage) -> None:
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
        if storage.url == "memory":  # nobody shares it
            threads = threads[:1]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (most, done) == (1, 5 * len(threads))


def test_a_dead_process_of_this_machine_holds_nothing(storage: StudyStorage) -> None:
    hold(storage, 0, Owner.new()._replace(pid=NO_PROCESS))
    with LeaseManager(storage.leases, "s") as own:
        assert own.held_by_others() == {}
        assert own.acquire(0) is None


def test_a_process_id_that_was_given_anew_is_another_process(storage: StudyStorage) -> None:
    hold(storage, 0, Owner.new()._replace(started="1"))
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is None


def test_of_another_machine_only_time_tells(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.3)
    hold(storage, 0, elsewhere(pid=NO_PROCESS), LEASE_SECONDS)
    hold(storage, 1, elsewhere(pid=NO_PROCESS), -1e4)
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is not None
        assert own.acquire(1) is not None, "the database may have been away: it is watched for a while"
        time.sleep(0.4)
        assert own.acquire(0) is not None
        assert own.acquire(1) is None


def test_who_is_watched_and_renews_keeps_what_it_has(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.2)
    slow = elsewhere()
    hold(storage, 0, slow, -5.0)
    with LeaseManager(storage.leases, "s") as own:
        assert own.acquire(0) is not None
        storage.leases.renew("s", str(slow), LEASE_SECONDS)
        time.sleep(0.3)
        assert own.acquire(0) is not None


def test_what_is_held_is_renewed(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
    with LeaseManager(storage.leases, "s") as own:
        own.acquire(0)
        begun = storage.leases.held("s")[0].deadline
        own.start_renewing()
        deadline = time.monotonic() + 30
        while storage.leases.held("s")[0].deadline <= begun and time.monotonic() < deadline:
            time.sleep(0.05)
        assert storage.leases.held("s")[0].deadline > begun


def test_what_was_taken_while_we_were_away_is_told(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
    with LeaseManager(storage.leases, "s") as own:
        own.acquire(0)
        own.acquire(1)
        storage.leases.take("s", 0, str(elsewhere()), 60.0, instead_of=storage.leases.held("s")[0])
        own.start_renewing()
        deadline = time.monotonic() + 30
        while not (lost := own.pop_lost()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert lost == {0}
        assert own.pop_lost() == set()
        assert own.holds(1)
        assert not own.holds(0)


def test_who_planned_while_it_was_away_hears_of_it(storage: StudyStorage) -> None:
    with LeaseManager(storage.leases, "s") as own:
        planning = own.planning()
        planning.__enter__()
        storage.leases.take("s", PLANNING, str(elsewhere()), 60.0, instead_of=storage.leases.held("s")[PLANNING])
        with pytest.raises(LeaseLostError):
            planning.__exit__(None, None, None)


def test_owners_are_read_as_they_were_written() -> None:
    own = Owner.new()
    assert Owner.read(str(own)) == own
    assert own.is_this_process
    assert not own.is_dead
    assert not elsewhere(pid=NO_PROCESS).is_dead
    assert len(str(own)) < 255


def test_another_process_is_known_to_live_and_to_be_dead() -> None:
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
class TestSeveralProcesses:
    """Several recorders of one study, as processes on several machines have them."""

    def test_a_plan_is_shared_out_and_nothing_is_done_twice(self, storage: StudyStorage, make_spec: Make) -> None:
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

    def test_a_living_trial_is_never_taken_away(self, storage: StudyStorage, make_spec: Make) -> None:
        lead = Recorder(open_study(make_spec(n_trials=1), storage))
        slow = lead.ask()
        assert slow is not None
        with Recorder(join_study("a study", storage)) as helper:
            assert helper.ask() is None
            assert helper.refresh().trials()[0].state.name == "RUNNING"
        lead.completed(slow.number, 1.0)
        lead.close()

    def test_the_trial_of_a_dead_process_goes_on_elsewhere(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
    ) -> None:
        study = open_study(make_spec(n_trials=1), storage)
        dead = Recorder(study)
        first = dead.ask()
        assert first is not None
        dead.started(first.number, {})
        dead.episodes(first.number, [episode()])
        dead.flush()
        die(study)
        with Recorder(join_study("a study", storage)) as helper:
            again = helper.ask()
            assert again == first
            helper.started(again.number, {})
            helper.completed(again.number, 2.0)
            assert storage.episodes.curve(study.episodes_key, 0) == []

    def test_who_was_away_is_not_heard(
        self,
        storage: StudyStorage,
        make_spec: Make,
        episode: Callable[..., EpisodeRecord],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.05)
        asleep = open_study(make_spec(n_trials=1), storage)
        sleeper = Recorder(asleep)
        ask = sleeper.ask()
        assert ask is not None
        deadline = time.monotonic() + 30
        taken = False
        while not taken and time.monotonic() < deadline:  # the sleeper may renew its lease between these two
            read = storage.leases.held(asleep.episodes_key)[ask.number]
            taken = storage.leases.take(asleep.episodes_key, ask.number, str(elsewhere()), 60.0, instead_of=read)
        assert taken
        while ask.number not in sleeper.rung(100, {ask.number: {0: 1.0}}) and time.monotonic() < deadline:
            time.sleep(0.05)
        sleeper.episodes(ask.number, [episode()])
        sleeper.completed(ask.number, 9.0)
        sleeper.close()
        assert [trial.state.name for trial in asleep.trials()] == ["RUNNING"], "it is the other one's"
        assert storage.episodes.curve(asleep.episodes_key, ask.number) == []

    def test_rows_that_the_lead_adds_are_found(self, storage: StudyStorage, make_spec: Make) -> None:
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
            assert helper.is_led_elsewhere
            assert not lead.is_led_elsewhere
        lead.close()

    def test_a_worker_leaves_something_for_others(self, storage: StudyStorage, make_spec: Make) -> None:
        open_study(make_spec(n_trials=12), storage).close()
        one, other = Recorder(join_study("a study", storage)), Recorder(join_study("a study", storage))
        assert one.share == 6
        for _ in range(6):
            one.ask()
        assert other.share == 2
        one.close()
        other.close()
        with open_study(make_spec(n_trials=12), storage) as study, Recorder(study) as lead:
            assert lead.share is None

    def test_two_do_not_lead(self, storage: StudyStorage, make_spec: Make) -> None:
        open_study(make_spec(), storage)
        key = open_study(make_spec(), storage).episodes_key
        with storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
            other = str(elsewhere(pid=7))
            connection.execute(sa.update(lease_rows).where(lease_rows.c.number == STUDY).values(owner=other))
        assert STUDY in storage.leases.held(key)
        with pytest.raises(Exception, match=r"being run by process 7 on far: help it \(finder worker 'a study'"):
            open_study(make_spec(), storage)
