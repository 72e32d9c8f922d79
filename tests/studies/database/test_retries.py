"""Storages that become unavailable: calls are retried, errors are clear, and no result is lost."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy as sa
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState, create_trial
from sqlalchemy.exc import DataError, IntegrityError, InternalError, OperationalError

from studies.coordination.lease_manager import STUDY
from studies.coordination.owner import Owner
from studies.database import retries as retries_module
from studies.database.records import EpisodeRecord
from studies.database.retries import (
    RETRY_SECONDS,
    RETRY_VARIABLE,
    RetryPolicy,
    StorageAwayError,
    TooLongError,
    retry_seconds,
    storage_failure,
)
from studies.database.retrying import RetryingStorage, RetryingTable
from studies.database.schema import leases as lease_rows
from studies.errors import StudyError
from studies.queue.trial_endings import TrialEnding
from studies.recording.opening import delete_study, open_study
from studies.recording.recorder import Recorder
from studies.recording.spool import EndedTrial, Spool
from studies.spec.spec import StudySpec
from studies.storage.quick_storage import QuickStorage
from studies.storage.storage import open_storage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
MakeEpisode = Callable[..., EpisodeRecord]


def unavailable_error(message: str = "server closed the connection unexpectedly") -> OperationalError:
    return OperationalError("SELECT 1", {}, sqlite3.OperationalError(message))


class Flaky:
    """A call that fails `n_failures` times before it returns."""

    def __init__(self, n_failures: float, error: BaseException | None = None) -> None:
        self.n_failures, self.n_calls, self.error = n_failures, 0, error or unavailable_error()

    def __call__(self) -> str:
        self.n_calls += 1
        if self.n_calls <= self.n_failures:
            raise self.error
        return "answer"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(retries_module, "_LONGEST_WAIT", 0.02)


def policy(seconds: float = 60.0) -> RetryPolicy:
    retry_policy = RetryPolicy("the storage")
    retry_policy.begin(seconds)
    return retry_policy


class TestRetryPolicy:
    def test_call_is_retried_until_the_storage_answers(self, caplog: pytest.LogCaptureFixture) -> None:
        flaky = Flaky(3)
        with caplog.at_level(logging.WARNING):
            assert policy()(flaky) == "answer"
        assert flaky.n_calls == 4
        messages = [record.getMessage() for record in caplog.records]
        assert "the storage does not answer (server closed the connection" in messages[0]
        assert "answers again" in messages[1]
        assert len(messages) == 2

    def test_retry_limit_raises_once_and_later_calls_are_not_retried(self) -> None:
        retry_policy = policy(0.1)
        with pytest.raises(StorageAwayError, match=r"has not answered for [\d.]+ s \(server closed"):
            retry_policy(Flaky(math.inf))
        assert retry_policy.is_over
        flaky = Flaky(math.inf)
        with pytest.raises(StorageAwayError):
            retry_policy(flaky)
        assert flaky.n_calls == 1

    @pytest.mark.parametrize("interrupted_at", [None, 40.0, 100.0])
    def test_messages_give_the_real_times(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, interrupted_at: float | None
    ) -> None:
        """Ctrl-C takes effect after the call, whose attempts take 30 seconds each."""
        clock = [0.0]

        def wait(seconds: float) -> None:
            clock[0] += seconds

        def attempt() -> None:
            wait(30.0)
            raise unavailable_error()

        monkeypatch.setattr(retries_module.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(retries_module.time, "sleep", wait)
        monkeypatch.setattr(retries_module, "_FIRST_WAIT", 5.0)
        monkeypatch.setattr(retries_module, "_LONGEST_WAIT", 5.0)
        retry_policy = policy(300.0)
        retry_policy.is_interrupted = lambda: interrupted_at is not None and clock[0] >= interrupted_at
        waited = {None: 310, 40.0: 65, 100.0: 100}[interrupted_at]
        with pytest.raises(StorageAwayError, match=f"has not answered for {waited} s "):
            retry_policy(attempt)
        assert clock[0] == waited
        assert "does not answer (server closed the connection unexpectedly): trying again for 270 s" in caplog.text
        wait(20.0)
        with pytest.raises(StorageAwayError, match=f"has not answered for {waited + 50} s "):
            retry_policy(attempt)

    def test_call_interrupted_during_an_outage_ends_the_retries_of_later_calls(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retry_policy = policy()

        def interrupt(_seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(retries_module.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            retry_policy(Flaky(math.inf))
        assert retry_policy.is_over

    @pytest.mark.parametrize("begins", ["before", "after"])
    def test_study_that_runs_in_the_handler_of_an_earlier_interrupt_is_not_ending(
        self, monkeypatch: pytest.MonkeyPatch, begins: str
    ) -> None:
        clock = [0.0]

        def wait(seconds: float) -> None:
            clock[0] += seconds

        monkeypatch.setattr(retries_module.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(retries_module.time, "sleep", wait)
        retry_policy = policy(300.0)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            if begins == "after":
                retry_policy.begin(300.0)
            with pytest.raises(StorageAwayError):
                retry_policy(Flaky(math.inf))
        limit = {"before": retries_module.INTERRUPTED_SECONDS, "after": 300.0}[begins]
        assert limit <= clock[0] < 2 * limit

    def test_interrupt_of_a_storage_that_answers_is_no_outage(self) -> None:
        retry_policy = policy()
        with pytest.raises(KeyboardInterrupt):
            retry_policy(Flaky(1, KeyboardInterrupt()))
        assert not retry_policy.is_over

    def test_reader_gets_the_error_without_retries(self) -> None:
        flaky = Flaky(1)
        with pytest.raises(StudyError, match=r"'the storage' cannot be used: .*Check that it is intact") as caught:
            RetryPolicy("the storage")(flaky)
        assert isinstance(caught.value.__cause__, OperationalError)
        assert flaky.n_calls == 1

    @pytest.mark.parametrize(
        "message",
        ["attempt to write a readonly database", "no such table: trials", "(1045, \"Access denied for user 'me'\")"],
    )
    def test_permanent_errors_are_not_retried(self, message: str) -> None:
        flaky = Flaky(math.inf, unavailable_error(message))
        with pytest.raises(StorageAwayError, match="cannot be written"):
            policy()(flaky)
        assert flaky.n_calls == 1

    @pytest.mark.parametrize(
        "error", [ValueError("no"), KeyError(3), IntegrityError("INSERT", {}, ValueError("twice"))]
    )
    def test_errors_unrelated_to_the_storage_are_raised_unchanged(self, error: Exception) -> None:
        flaky = Flaky(1, error)
        with pytest.raises(type(error)):
            policy()(flaky)
        assert flaky.n_calls == 1

    def test_error_that_the_caller_handles_is_not_a_storage_failure(self) -> None:
        retry_policy, flaky = policy(0.1), Flaky(math.inf, KeyError("a trial"))
        try:
            raise FileExistsError("a file of the user")
        except FileExistsError:
            with pytest.raises(KeyError):
                retry_policy(flaky)
        assert flaky.n_calls == 1
        assert not retry_policy.is_over

    def test_cause_of_a_wrapped_storage_error_is_found(self) -> None:
        try:
            try:
                raise unavailable_error()
            except OperationalError as error:
                raise optuna.exceptions.StorageInternalError("the commit") from error
        except optuna.exceptions.StorageInternalError as error:
            failure = storage_failure(error)
        assert failure is not None
        assert failure.transient
        assert storage_failure(OSError(28, "No space left on device")) == ("[Errno 28] No space left on device", True)
        assert storage_failure(ValueError("no")) is None

    def test_value_that_is_too_long_is_not_reported_as_damage(self) -> None:
        too_long = Exception(1406, "Data too long for column 'value_json' at row 1")
        error = optuna.exceptions.StorageInternalError("the commit")
        error.__cause__ = DataError("UPDATE study_user_attributes", {}, too_long)
        message = r"a value is too long for the storage 'the storage' .*'value_json'.*MEDIUMTEXT"
        for retry_policy in (policy(), RetryPolicy("the storage")):
            with pytest.raises(TooLongError, match=message):
                retry_policy(Flaky(1, error))

    @pytest.mark.parametrize(("text", "seconds"), [("", RETRY_SECONDS), ("12.5", 12.5), ("0", 0.0)])
    def test_environment_variable_sets_the_retry_limit(
        self, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, text)
        assert retry_seconds() == seconds

    @pytest.mark.parametrize("text", ["long", "-1", "inf", "nan"])
    def test_invalid_retry_limit_raises(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, text)
        with pytest.raises(StudyError, match="give seconds"):
            retry_seconds()


class LosesFirstReply:
    """A storage whose first call of a method is executed, but raises instead of returning its result."""

    def __init__(self, target: Any, name: str) -> None:
        self._target, self._name, self.n_calls = target, name, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name != self._name:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.n_calls += 1
            result = found(*args, **kwargs)
            if self.n_calls == 1:
                raise unavailable_error()
            return result

        return call


class TestRetriedCallsAreIdempotent:
    def test_retried_create_new_trial_creates_one_trial(self) -> None:
        memory = InMemoryStorage()
        study = optuna.create_study(storage=memory)
        unreliable = LosesFirstReply(memory, "create_new_trial")
        storage = RetryingStorage(unreliable, policy())  # type: ignore[arg-type]
        template = create_trial(state=TrialState.RUNNING)
        trial_id = storage.create_new_trial(study._study_id, template)
        assert [trial._trial_id for trial in memory.get_all_trials(study._study_id)] == [trial_id]

    def test_creation_in_a_database_whose_answer_was_lost_creates_one_trial(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Optuna repeats the creation by itself."""
        database = QuickStorage(f"sqlite:///{tmp_path}/s.db")
        study = optuna.create_study(storage=database)
        commit, lost = sa.orm.Session.commit, [unavailable_error()]

        def lose_first_answer(session: sa.orm.Session) -> None:
            commit(session)
            if lost:
                raise lost.pop()

        monkeypatch.setattr(sa.orm.Session, "commit", lose_first_answer)
        storage = RetryingStorage(database, policy())
        trial_id = storage.create_new_trial(study._study_id, create_trial(state=TrialState.RUNNING))
        assert not lost
        assert [trial._trial_id for trial in database.get_all_trials(study._study_id)] == [trial_id]

    @pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.RUNNING])
    def test_retried_set_trial_state_succeeds(self, state: TrialState) -> None:
        memory = InMemoryStorage()
        study = optuna.create_study(storage=memory)
        before = TrialState.RUNNING if state == TrialState.COMPLETE else TrialState.WAITING
        trial_id = memory.create_new_trial(study._study_id, create_trial(state=before))
        storage = RetryingStorage(LosesFirstReply(memory, "set_trial_state_values"), policy())  # type: ignore[arg-type]
        assert storage.set_trial_state_values(trial_id, state, [1.0] if state == TrialState.COMPLETE else None)
        assert memory.get_trial(trial_id).state == state

    def test_retried_create_new_study_creates_one_study(self) -> None:
        memory = InMemoryStorage()
        storage = RetryingStorage(LosesFirstReply(memory, "create_new_study"), policy())  # type: ignore[arg-type]
        study_id = storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], "s")
        assert [study._study_id for study in memory.get_all_studies()] == [study_id]

    def test_retried_release_reports_whether_the_lease_was_released(self, tmp_path: Path) -> None:
        with open_storage(f"sqlite:///{tmp_path}/s.db") as opened:
            opened.leases.take("s", 0, "me", 60.0)
            table = RetryingTable(LosesFirstReply(opened.leases, "release"), policy())
            assert table.release("s", 0, "me")
            opened.leases.take("s", 0, "somebody else", 60.0)
            table = RetryingTable(LosesFirstReply(opened.leases, "release"), policy())
            assert not table.release("s", 0, "me")


@contextmanager
def fault(study: OpenStudy, message: str) -> Iterator[None]:
    """Make every statement of a study's database fail with a message."""
    engine = study.storage.episodes.engine  # type: ignore[attr-defined]

    def refuse(*_: Any) -> None:
        raise sqlite3.OperationalError(message)

    sa.event.listen(engine, "before_cursor_execute", refuse)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", refuse)


class ReadOnlyServerError(Exception):
    """As psycopg raises it where a standby has replaced the primary."""

    sqlstate = "25006"


@pytest.mark.parametrize(
    ("original", "transient"),
    [
        (ReadOnlyServerError("cannot execute UPDATE in a read-only transaction"), True),
        (Exception(1290, "The MySQL server is running with the --read-only option"), True),
        (Exception(1290, "The MySQL server is running with the --skip-grant-tables option"), None),
    ],
)
def test_server_that_was_replaced_is_called_again(original: Exception, transient: bool | None) -> None:
    failure = storage_failure(InternalError("UPDATE", {}, original))
    assert (None if failure is None else failure.transient) == transient


class TestResultsSurviveAnOutage:
    @pytest.fixture(autouse=True)
    def short_retry_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "0.2")

    @pytest.mark.parametrize(
        "message", ["disk I/O error", "database or disk is full", "attempt to write a readonly database"]
    )
    def test_trials_ended_during_an_outage_are_written_afterwards(
        self, tmp_path: Path, make_spec: Make, episode: MakeEpisode, monkeypatch: pytest.MonkeyPatch, message: str
    ) -> None:
        monkeypatch.setattr("studies.recording.writer.FLUSH_SECONDS", 3600.0)  # episodes wait, however slow the machine
        url = f"sqlite:///{tmp_path}/finder.db"
        spec = make_spec(n_trials=5, storage=url, pruner="median")
        with open_study(spec) as study:
            recorder = Recorder(study)
            asks = [recorder.ask() for _ in range(5)]
            numbers = [ask.number for ask in asks if ask]
            for number in numbers:
                recorder.started(number, {"number": number})
            recorder.completed(numbers[0], 5.0, {0: 5.0})
            with fault(study, message):
                recorder.episodes(numbers[1], [episode(), episode(episode=1, episode_return=math.nan)])
                with pytest.raises(StorageAwayError):
                    recorder.rung(600, {numbers[1]: {0: 3.0}})
                assert recorder.is_cut_off
                assert recorder.ask() is None
                recorder.completed(numbers[1], 6.0, {0: 6.0}, {"env_steps": 1000})
                recorder.failed(numbers[4], "the loss is NaN", kind="diverged")
                recorder.pruned(numbers[2], 400, 1.0, {0: 1.0})
                recorder.episodes(numbers[3], [episode()])
                recorder.interrupted(numbers[3])
                assert recorder.spool_path is not None
                recorder.close()
            assert [trial.state.name for trial in study.trials()] == ["COMPLETE", *["RUNNING"] * 4]
            assert study.leases is not None
        spool = Spool(url, study.episodes_key)
        assert sorted(kept.number for kept in spool.read()) == [numbers[1], numbers[2], numbers[4]]
        with open_study(spec) as study, Recorder(study) as recorder:
            states = [trial.state.name for trial in study.trials()]
            assert states == ["COMPLETE", "COMPLETE", "PRUNED", "WAITING", "FAIL"]
            second, third = study.trials()[1:3]
            assert (second.value, second.user_attrs["seed_values"], second.user_attrs["env_steps"]) == (
                6.0,
                {"0": 6.0},
                1000,
            )
            assert second.intermediate_values == {600: 3.0}
            assert third.intermediate_values == {400: 1.0}
            assert "it had fallen behind" in third.user_attrs["reason"]
            curve = study.storage.episodes.curve(study.episodes_key, numbers[1])
            assert [each.episode for each in curve] == [0, 1]
            assert math.isnan(curve[1].episode_return)
            assert recorder.spool_path is None
            resumed = recorder.ask()
            assert resumed is not None
            assert resumed.number == numbers[3]
            recorder.completed(resumed.number, 7.0)
            assert recorder.ask() is None

    @pytest.mark.parametrize("is_written", [False, True])
    def test_result_whose_write_was_interrupted_is_written_afterwards(
        self, tmp_path: Path, make_spec: Make, monkeypatch: pytest.MonkeyPatch, is_written: bool
    ) -> None:
        spec = make_spec(n_trials=1, storage=f"sqlite:///{tmp_path}/finder.db")

        def interrupted(study: optuna.Study, *args: Any, **kwargs: Any) -> None:
            if is_written:
                tell(study, *args, **kwargs)
            raise KeyboardInterrupt

        tell = optuna.Study.tell
        with open_study(spec) as study, Recorder(study) as recorder:
            recorder.ask()
            with monkeypatch.context() as patched:
                patched.setattr(optuna.Study, "tell", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    recorder.completed(0, 1.0, {0: 1.0})
        with open_study(spec) as study, Recorder(study) as recorder:
            assert [(trial.state.name, trial.value) for trial in study.trials()] == [("COMPLETE", 1.0)]
            assert recorder.spool_path is None
            assert recorder.ask() is None

    def test_spooled_result_does_not_overwrite_a_trial_that_has_ended(self, tmp_path: Path, make_spec: Make) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        spec = make_spec(n_trials=1, storage=url)
        with open_study(spec) as study:
            recorder = Recorder(study)
            ask = recorder.ask()
            assert ask is not None
            with fault(study, "disk I/O error"):
                with pytest.raises(StorageAwayError):
                    recorder.completed(ask.number, 1.0)
                recorder.close()
            study.study.tell(ask.number, 2.0)
        with open_study(spec) as study, Recorder(study) as recorder:
            assert study.trials()[0].value == 2.0
            assert recorder.spool_path is None

    def test_spooled_result_waits_while_another_process_holds_the_trial(self, tmp_path: Path, make_spec: Make) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        spec = make_spec(n_trials=3, storage=url)
        with open_study(spec) as study:
            recorder = Recorder(study)
            for _ in range(2):
                recorder.ask()
            with fault(study, "disk I/O error"):
                with pytest.raises(StorageAwayError):
                    recorder.completed(0, 6.0, {0: 6.0})
                recorder.completed(1, 7.0, {0: 7.0})
                recorder.close()
            key = study.episodes_key
        spool = Spool(url, key)
        with open_storage(url) as storage:
            held = storage.leases.held(key)[0]
            far = str(Owner.read(held.owner)._replace(machine="another"))
            with storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
                connection.execute(sa.update(lease_rows).where(lease_rows.c.number == 0).values(owner=far))
        with open_study(spec) as study, Recorder(study) as recorder:
            assert [trial.value for trial in study.trials()] == [None, 7.0]
            assert [kept.number for kept in spool.read()] == [0]
            assert recorder.spool_path == spool.path
            assert (ask := recorder.ask()) is not None
            assert ask.number == 2
            assert study.storage.leases.release(key, 0, far)
            assert recorder.ask() is None, "no trial must be left to run once the kept results are written"
            assert [trial.value for trial in study.trials()] == [6.0, 7.0, None]
            assert recorder.spool_path is None
            assert study.storage.leases.held(key).keys() == {STUDY, 2}

    def test_spooled_result_does_not_overwrite_a_restarted_trial(
        self, tmp_path: Path, make_spec: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        spec = make_spec(n_trials=1, storage=url)
        with open_study(spec) as study:
            recorder = Recorder(study)
            recorder.ask()
            with fault(study, "disk I/O error"):
                with pytest.raises(StorageAwayError):
                    recorder.completed(0, 9.0)
                recorder.close()
        spool = Spool(url, study.episodes_key)
        assert spool.path is not None
        aside = spool.path.rename(tmp_path / "aside")
        with open_study(spec) as study, Recorder(study) as recorder:
            recorder.ask()
            recorder.started(0, {"of": "the second one"})
        aside.rename(spool.path)
        with open_study(spec) as study, Recorder(study) as recorder:
            (trial,) = study.trials()
            assert (trial.state, trial.user_attrs["configuration"]) == (TrialState.WAITING, {"of": "the second one"})
            assert recorder.spool_path is None
            assert recorder.ask() is not None
        assert "Trial 0 was restarted by another process" in caplog.text

    def test_truncated_spool_line_is_skipped(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        spool = Spool(f"sqlite:///{tmp_path}/finder.db", "s")
        assert spool.path is not None
        spool.path.parent.mkdir(parents=True)
        spool.path.write_text('{"number": 3, "ending": {"st')
        assert spool.read() == []
        assert "its trial is run again" in caplog.text
        further = EndedTrial(number=4, ending=TrialEnding(TrialState.COMPLETE, 1.0, {}))
        spool.keep(further)
        assert spool.read() == [replace(further, episodes=[])]

    def test_deleting_a_study_deletes_its_spool(self, tmp_path: Path, make_spec: Make) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        with open_study(make_spec(storage=url)) as study:
            spool = Spool(url, study.episodes_key)
        assert spool.path is not None
        spool.path.parent.mkdir(parents=True, exist_ok=True)
        spool.path.write_text("{}\n")
        delete_study("a study", url)
        assert not spool.path.exists()
