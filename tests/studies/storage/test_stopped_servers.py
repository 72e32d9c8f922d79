"""Storages that are stopped, shut down or locked while a study runs: shorter and longer than the retry limit."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy as sa
from databases import OwnPostgres
from processes import running

from studies.coordination import lease_manager
from studies.database import retries as retries_module
from studies.database.records import EpisodeRecord
from studies.database.retries import RETRY_VARIABLE, RetryPolicy, StorageAwayError
from studies.database.sqlite_connections import WAIT_SECONDS
from studies.recording import writer
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.recording.spool import Spool
from studies.spec.spec import StudySpec
from studies.storage.server_timeouts import options_of_server, session_timeouts
from studies.storage.storage import open_storage
from studies.study.study import load_study

Make = Callable[..., StudySpec]
ROOT = Path(__file__).parents[3]
LIMIT_SECONDS = 3.0
OVERHEAD_SECONDS = 10.0
"""A study ends within twice the retry limit plus this overhead; a longer time means repeated waits."""

SERVE = """
import sys, threading
from studies.servers.proxy import make_proxy
from studies.database.sqlite_connections import WAIT_SECONDS
from studies.storage.storage import open_storage
server, port = make_proxy(open_storage(sys.argv[1]), "127.0.0.1", 0)
server.start()
print(port, flush=True)
threading.Event().wait()
"""
LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
for line in sys.stdin:
    connection.execute(line)
    print("done", flush=True)
"""


class Served:
    """A storage behind `finder serve`, in its own process, which is stopped (SIGSTOP) and continued."""

    def __init__(self, file: Path, processes: contextlib.ExitStack) -> None:
        self._file, self._processes = file, processes
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, f"sqlite:///{self._file}"]
        self._process = self._processes.enter_context(running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        self.url = f"grpc://127.0.0.1:{int(self._process.stdout.readline())}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def replace(self) -> None:
        """Kill the stopped server and serve the same file with another one."""
        self._process.kill()
        self._process.wait()
        self.start()


class Stopped:
    """A PostgreSQL whose processes are stopped (SIGSTOP): connections stay open, and nothing is answered."""

    def __init__(self, server: OwnPostgres) -> None:
        self._server = server
        self.url = server.url
        self._pids: list[int] = []

    def stop(self) -> None:
        os.kill(self._server.pids[0], signal.SIGSTOP)  # the postmaster first, so that it starts no more processes
        self._pids = self._server.pids
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in reversed(self._pids):  # the postmaster last: until then, processes that ended keep their IDs
            os.kill(pid, signal.SIGCONT)
        self._pids = []


class ShutDown:
    """A PostgreSQL that is shut down and started again."""

    def __init__(self, server: OwnPostgres) -> None:
        self.url = server.url
        self.stop, self.resume = server.stop, server.start


class Locked:
    """A SQLite file that another process locks and unlocks."""

    def __init__(self, url: str, file: Path, processes: contextlib.ExitStack) -> None:
        self.url, self._file = url, file
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", LOCK, str(file)]
        self._process = processes.enter_context(running(command, text=True, **pipes))

    def _execute(self, statement: str) -> None:
        print(statement, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def stop(self) -> None:
        self._execute("BEGIN EXCLUSIVE")

    def resume(self) -> None:
        self._execute("COMMIT")


@pytest.fixture(params=["served", "stopped", "shut down", "locked", "locked journal"])
def unavailable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A storage that can become unavailable."""
    with contextlib.ExitStack() as processes:
        if request.param == "served":
            storage: Any = Served(tmp_path / "served.db", processes)
        elif request.param in ("stopped", "shut down"):
            server = request.getfixturevalue("own_postgres")
            storage = (Stopped if request.param == "stopped" else ShutDown)(server)
        elif request.param == "locked":
            storage = Locked(f"sqlite:///{tmp_path}/finder.db", tmp_path / "finder.db", processes)
        else:
            journal = tmp_path / "finder.log"
            storage = Locked(f"journal:///{journal}", Path(f"{journal}.episodes.db"), processes)
        try:
            yield storage
        finally:
            with contextlib.suppress(Exception):
                storage.resume()


@pytest.fixture(autouse=True)
def _temporary_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.2)


def episode(number: int) -> EpisodeRecord:
    return EpisodeRecord(
        seed=0, episode=number, env_steps=number + 1, episode_return=1.0, length=1, loss=None, wall_seconds=0.0
    )


def start_trials(spec: StudySpec) -> Recorder:
    """Return a recorder with two running trials, each with one stored episode."""
    recorder = Recorder(open_study(spec))
    for number in range(2):
        assert recorder.ask() is not None
        recorder.started(number, {"of": "the first"})
        recorder.episodes(number, [episode(0)])
    recorder.flush()
    return recorder


def end_trials(recorder: Recorder) -> float:
    """End both trials while the storage is unavailable, and return the elapsed seconds."""
    began = time.monotonic()
    recorder.episodes(0, [episode(1)])
    with pytest.raises(StorageAwayError, match=r"has not answered for \d+ s"):
        recorder.completed(0, 6.0, {0: 6.0})
    recorder.completed(1, 7.0, {0: 7.0})
    recorder.close()
    recorder._study.close()
    return time.monotonic() - began


def check_spool_is_written(spec: StudySpec, url: str, key: str) -> None:
    """Check that the next process that runs the study writes the spooled results exactly once."""
    with open_study(StudySpec.from_json_dict({**spec.to_json_dict(), "storage": url})) as study:
        with Recorder(study) as recorder:
            assert recorder.ask() is None
            assert recorder.spool_path is None
        trials = study.trials()
        assert [(each.state.name, each.value) for each in trials] == [("COMPLETE", 6.0), ("COMPLETE", 7.0)]
        assert [each.user_attrs["configuration"] for each in trials] == [{"of": "the first"}] * 2
        episodes = [[each.episode for each in study.storage.episodes.curve(key, number)] for number in range(2)]
        assert episodes == [[0, 1], [0]]


@pytest.mark.real
class TestPermanentOutage:
    @pytest.mark.usefixtures("usual_signals")
    def test_study_ends_within_the_retry_limit_and_results_are_written_later(
        self, unavailable: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, str(LIMIT_SECONDS))
        # Episodes are then written with the end of their trial, however slow the machine is.
        monkeypatch.setattr(writer, "FLUSH_SECONDS", math.inf)
        spec = make_spec(n_trials=2, storage=unavailable.url, confirm=0)
        recorder = start_trials(spec)
        key = recorder._study.episodes_key
        unavailable.stop()
        assert end_trials(recorder) < 2 * LIMIT_SECONDS + OVERHEAD_SECONDS
        assert [each.number for each in Spool(unavailable.url, key).read()] == [0, 1]
        if isinstance(unavailable, Served):
            unavailable.replace()
        else:
            unavailable.resume()
        check_spool_is_written(spec, unavailable.url, key)

    def test_hanging_lease_renewal_does_not_block_the_end(
        self, tmp_path: Path, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "0.2")
        monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.0)
        url = f"sqlite:///{tmp_path}/finder.db"
        renews, release = threading.Event(), threading.Event()
        recorder = start_trials(make_spec(n_trials=2, storage=url, confirm=0))
        assert recorder._study.leases is not None
        table = recorder._study.leases._table

        def renew(*_: Any) -> set[int]:
            renews.set()
            release.wait()
            return set()

        def refuse(*_: Any) -> Any:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(table, "renew", renew)
        assert renews.wait(60)
        sa.event.listen(recorder._study.storage.episodes.engine, "begin", refuse)  # type: ignore[attr-defined]

        def end() -> None:
            with contextlib.suppress(StorageAwayError):
                recorder.completed(0, 6.0, {0: 6.0})
            recorder.close()

        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        ending.join(30)
        ended = not ending.is_alive()
        release.set()
        ending.join()
        assert ended


@pytest.mark.real
class TestTemporaryOutage:
    @pytest.mark.usefixtures("usual_signals")
    def test_results_written_during_the_outage_are_stored_once(
        self, unavailable: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retries_module, "CALL_SECONDS", 1.0)  # so that each call is retried several times
        spec = make_spec(n_trials=2, storage=unavailable.url, confirm=0)
        recorder = start_trials(spec)
        key = recorder._study.episodes_key
        unavailable.stop()
        recorder.episodes(0, [episode(1)])
        late = threading.Thread(target=recorder.completed, args=(0, 6.0, {0: 6.0}))
        late.start()
        late.join(4.0)
        assert late.is_alive(), "the process must wait for its storage"
        unavailable.resume()
        late.join(120)
        assert not late.is_alive()
        recorder.completed(1, 7.0, {0: 7.0})
        assert recorder.spool_path is None
        recorder.close()
        recorder._study.close()
        check_spool_is_written(spec, unavailable.url, key)


class TestOptions:
    def test_timeouts_in_the_url_take_precedence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "20")
        retry_policy = RetryPolicy("a storage")
        mysql = options_of_server("mysql+pymysql://h/d?read_timeout=7", retry_policy)["connect_args"]
        assert mysql == {"connect_timeout": 10, "write_timeout": 20}
        url = "postgresql+psycopg://h/d?tcp_user_timeout=5&options=-c%20statement_timeout%3D5"
        assert "tcp_user_timeout" not in options_of_server(url, retry_policy)["connect_args"]
        idle, statement = "SET idle_in_transaction_session_timeout TO 30000", "SET statement_timeout TO 60000"
        assert session_timeouts(sa.create_engine(url)) == [idle]
        assert session_timeouts(sa.create_engine("postgresql+psycopg://h/d")) == [statement, idle]
        monkeypatch.setenv(RETRY_VARIABLE, "0")
        assert session_timeouts(sa.create_engine("postgresql+psycopg://h/d")) == [idle]

    @pytest.mark.real
    def test_postgresql_sessions_have_a_statement_timeout(self, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "20")
        with open_storage(postgres) as storage, storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
            assert connection.execute(sa.text("SHOW statement_timeout")).scalar_one() == "1min"

    @pytest.mark.parametrize(("retry_limit", "timeout"), [("20", 20.0), ("120", 30.0), ("0", 30.0)])
    def test_busy_timeout_is_at_most_the_retry_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_spec: Make, retry_limit: str, timeout: float
    ) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        open_study(make_spec(storage=url)).close()
        monkeypatch.setenv(RETRY_VARIABLE, retry_limit)
        with contextlib.closing(sqlite3.connect(tmp_path / "finder.db")) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            with load_study("a study", url) as study:  # readers are not blocked
                engine = study.storage.episodes.engine  # type: ignore[attr-defined]
                with engine.connect() as own:
                    assert own.connection.driver_connection.lock_seconds == timeout
                    assert own.execute(sa.text("PRAGMA busy_timeout")).scalar_one() == 1000 * WAIT_SECONDS


@pytest.mark.real
def test_no_write_to_postgresql_is_a_pipeline(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of idle transactions does not apply within a pipeline, so that a stopped client keeps its locks."""
    import psycopg

    def executemany(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a pipeline")

    with open_storage(postgres) as storage:
        study = optuna.create_study(storage=storage.optuna)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(psycopg.Cursor, "executemany", executemany)
                trial, other = study.ask(), study.ask()
                common = {"seed": 0, "episode_return": 1.0, "length": 10, "loss": None, "wall_seconds": 0.5}
                episodes = [EpisodeRecord(episode=number, env_steps=10 * number, **common) for number in range(3)]
                storage.episodes.add(study.study_name, [(0, each) for each in episodes])
                storage.trial_writes.report(10, {trial._trial_id: 1.0, other._trial_id: 2.0})
                storage.trial_writes.set_user_attrs(trial._trial_id, {"first": 1, "second": 2})
            assert storage.episodes.curve(study.study_name, 0) == episodes
        finally:
            storage.episodes.delete(study.study_name)
            optuna.delete_study(study_name=study.study_name, storage=storage.optuna)
