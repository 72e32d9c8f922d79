"""Storages that are stopped, shut down or locked while a study is run: for a while, and for longer than it waits."""

from __future__ import annotations

import contextlib
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

import pytest
import sqlalchemy as sa
from databases import OwnPostgres
from processes import running

from studies.coordination import lease_manager
from studies.database import retries as patience_module
from studies.database.records import EpisodeRecord
from studies.database.retries import RETRY_VARIABLE, RetryPolicy, StorageAwayError
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
"""Within twice the limit and so many seconds a study has ended; what is more is waited for again and again."""

SERVE = """
import sys, threading
from studies.servers.proxy import make_proxy
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
    """A storage behind `finder serve`, as a process of its own that is stopped (SIGSTOP), and goes on."""

    def __init__(self, file: Path, processes: contextlib.ExitStack) -> None:
        self._file, self._processes = file, processes
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, f"sqlite:///{self._file}"]
        self._process = self._processes.enter_context(running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        self.url = f"grpc://127.0.0.1:{int(self._process.stdout.readline())}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def replace(self) -> None:
        """It never goes on; another one serves the same file."""
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
        os.kill(self._server.pids[0], signal.SIGSTOP)  # first, so that no more are started
        self._pids = self._server.pids
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)
        self._pids = []


class ShutDown:
    """A PostgreSQL that is shut down, and started again."""

    def __init__(self, server: OwnPostgres) -> None:
        self.url = server.url
        self.stop, self.go_on = server.stop, server.start


class Locked:
    """A file that another process has locked, and gives free."""

    def __init__(self, url: str, file: Path, processes: contextlib.ExitStack) -> None:
        self.url, self._file = url, file
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", LOCK, str(file)]
        self._process = processes.enter_context(running(command, text=True, **pipes))

    def _say(self, statement: str) -> None:
        print(statement, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def stop(self) -> None:
        self._say("BEGIN EXCLUSIVE")

    def go_on(self) -> None:
        self._say("COMMIT")


@pytest.fixture(params=["served", "stopped", "shut down", "locked", "locked journal"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A storage that can be away."""
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
                storage.go_on()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.2)


def episode(number: int) -> EpisodeRecord:
    return EpisodeRecord(
        seed=0, episode=number, env_steps=number + 1, episode_return=1.0, length=1, loss=None, wall_seconds=0.0
    )


def begun(spec: StudySpec) -> Recorder:
    """Two trials that run, with an episode of each in the storage."""
    recorder = Recorder(open_study(spec))
    for number in range(2):
        assert recorder.ask() is not None
        recorder.started(number, {"of": "the first"})
        recorder.episodes(number, [episode(0)])
    recorder.flush()
    return recorder


def cut_off(recorder: Recorder) -> float:
    """Both trials end while the storage is away; returns how long that took."""
    began = time.monotonic()
    recorder.episodes(0, [episode(1)])
    with pytest.raises(StorageAwayError, match=f"has not answered for {LIMIT_SECONDS:g} s"):
        recorder.completed(0, 6.0, {0: 6.0})
    recorder.completed(1, 7.0, {0: 7.0})
    recorder.close()
    recorder._study.close()
    return time.monotonic() - began


def check_written_later(spec: StudySpec, url: str, key: str) -> None:
    """What ended meanwhile is written by the next one that runs the study, once."""
    with open_study(StudySpec.from_json_dict({**spec.to_json_dict(), "storage": url})) as study:
        with Recorder(study) as recorder:
            assert recorder.ask() is None
            assert recorder.spool_path is None
        trials = study.trials()
        assert [(each.state.name, each.value) for each in trials] == [("COMPLETE", 6.0), ("COMPLETE", 7.0)]
        assert [each.user_attrs["configuration"] for each in trials] == [{"of": "the first"}] * 2
        told = [[each.episode for each in study.storage.episodes.curve(key, number)] for number in range(2)]
        assert told == [[0, 1], [0]]


@pytest.mark.real
class TestAwayForGood:
    @pytest.mark.usefixtures("usual_signals")
    def test_the_end_comes_in_time_and_what_ended_meanwhile_is_written_later(
        self, away: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, str(LIMIT_SECONDS))
        spec = make_spec(n_trials=2, storage=away.url, confirm=0)
        recorder = begun(spec)
        key = recorder._study.episodes_key
        away.stop()
        assert cut_off(recorder) < 2 * LIMIT_SECONDS + OVERHEAD_SECONDS
        assert [each.number for each in Spool(away.url, key).read()] == [0, 1]
        if isinstance(away, Served):
            away.replace()
        else:
            away.go_on()
        check_written_later(spec, away.url, key)

    def test_a_renewal_that_is_not_answered_keeps_nobody_waiting(
        self, tmp_path: Path, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "0.2")
        monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 0.0)
        url = f"sqlite:///{tmp_path}/finder.db"
        renews, goes_on = threading.Event(), threading.Event()
        recorder = begun(make_spec(n_trials=2, storage=url, confirm=0))
        assert recorder._study.leases is not None
        table = recorder._study.leases._table

        def renew(*_: Any) -> set[int]:
            renews.set()
            goes_on.wait()
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
        goes_on.set()
        ending.join()
        assert ended


@pytest.mark.real
class TestAwayForAWhile:
    @pytest.mark.usefixtures("usual_signals")
    def test_what_is_written_meanwhile_is_there_once(
        self, away: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(patience_module, "CALL_SECONDS", 1.0)  # each call is made several times
        spec = make_spec(n_trials=2, storage=away.url, confirm=0)
        recorder = begun(spec)
        key = recorder._study.episodes_key
        away.stop()
        recorder.episodes(0, [episode(1)])
        late = threading.Thread(target=recorder.completed, args=(0, 6.0, {0: 6.0}))
        late.start()
        late.join(4.0)
        assert late.is_alive(), "it waits for its storage"
        away.go_on()
        late.join(120)
        assert not late.is_alive()
        recorder.completed(1, 7.0, {0: 7.0})
        assert recorder.spool_path is None
        recorder.close()
        recorder._study.close()
        check_written_later(spec, away.url, key)


class TestOptions:
    def test_what_a_url_says_of_timeouts_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
    def test_a_statement_that_hangs_in_the_server_is_given_up_there(
        self, postgres: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "20")
        with open_storage(postgres) as storage, storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
            assert connection.execute(sa.text("SHOW statement_timeout")).scalar_one() == "1min"

    def test_a_file_that_is_locked_is_waited_for_no_longer_than_a_study_waits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_spec: Make
    ) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        open_study(make_spec(storage=url)).close()
        monkeypatch.setenv(RETRY_VARIABLE, "2")
        with contextlib.closing(sqlite3.connect(tmp_path / "finder.db")) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            with load_study("a study", url) as study:  # who reads is not kept from it
                engine = study.storage.episodes.engine  # type: ignore[attr-defined]
                with engine.connect() as own:
                    assert own.execute(sa.text("PRAGMA busy_timeout")).scalar_one() == 2000
