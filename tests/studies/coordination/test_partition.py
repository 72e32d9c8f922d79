"""Real processes that are stopped (SIGSTOP) or disconnected for longer than their leases, and then resume."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studies.coordination import lease_manager
from studies.database.records import Ask, EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.servers.proxy import make_proxy
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
ROOT = Path(__file__).parents[3]

HOLD = """
import sys
from studies.coordination import lease_manager
lease_manager.LEASE_SECONDS, lease_manager.RENEW_SECONDS = 1.0, 3600.0  # no renewal thread notices the loss
from studies.recording.opening import join_study
from studies.recording.recorder import Recorder
from studies.database.records import EpisodeRecord
url, write = sys.argv[1:]
recorder = Recorder(join_study("a study", url))
number = recorder.ask().number
recorder.started(number, {"of": "the one that was stopped"})
print("holding", flush=True)
sys.stdin.readline()
episode = EpisodeRecord(seed=0, episode=0, env_steps=1, episode_return=9.0, length=1, loss=9.0, wall_seconds=9.0)
if write == "everything":
    recorder.started(number, {"of": "the one that was stopped"})
    recorder.episodes(number, [episode])
    recorder.flush()
    recorder.rung(100, {number: {0: 9.0}})
    recorder.completed(number, 9.0, {0: 9.0}, {"env_steps": 9})
elif write == "value":
    recorder.completed(number, 9.0, {0: 9.0}, {"env_steps": 9})
recorder.close()
print("closed", flush=True)
"""


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.2)


def ask_until_free(recorder: Recorder) -> Ask:
    """Ask for a trial until a lease has expired."""
    deadline = time.monotonic() + 60
    while (ask := recorder.ask()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return ask


def join_until_free(storage: StudyStorage) -> OpenStudy:
    """Join a study; for a study in a file, retry until the lease of its former process has expired."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return join_study("a study", storage)
        except StudyError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def stored_rows(study: OpenStudy, number: int) -> Any:
    """Return everything that is stored of a trial, as text."""
    trial = study.all_trials()[number]
    parts = (trial.state, trial.values, trial.params, trial.user_attrs, trial.system_attrs, trial.intermediate_values)
    times = (trial.datetime_start, trial.datetime_complete)
    return repr((*parts, *times, study.storage.episodes.curve(study.episodes_key, number)))


def run_half(recorder: Recorder, number: int) -> None:
    recorder.started(number, {"of": "the successor"})
    record = EpisodeRecord(seed=0, episode=0, env_steps=2, episode_return=2.0, length=2, loss=2.0, wall_seconds=2.0)
    recorder.episodes(number, [record])
    recorder.flush()
    recorder.rung(50, {number: {0: 2.0}})


@contextlib.contextmanager
def holding_process(url: str, write: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds a trial."""
    with running_script([HOLD, url, write]) as process:
        yield process


@contextlib.contextmanager
def running_script(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a script that prints "holding" once it holds a lease."""
    command = [sys.executable, "-c", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, cwd=ROOT, **pipes) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()  # also a stopped process


@pytest.mark.real
@pytest.mark.parametrize("meanwhile", ["runs it", "has ended it"])
@pytest.mark.parametrize("write", ["everything", "value", "nothing"])
@pytest.mark.parametrize(
    "storage_url",
    [
        "sqlite",
        "journal",
        pytest.param("postgresql", marks=pytest.mark.real),
        pytest.param("grpc", marks=pytest.mark.real),
    ],
    indirect=True,
)
def test_stopped_process_overwrites_nothing_after_it_resumes(
    storage_url: str, make_spec: Make, write: str, meanwhile: str, request: pytest.FixtureRequest
) -> None:
    storage = request.getfixturevalue("storage")
    with open_study(make_spec(n_trials=1), storage):
        pass
    with holding_process(storage_url, write) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        study = join_until_free(storage)
        with Recorder(study) as successor:
            number = ask_until_free(successor).number
            run_half(successor, number)
            if meanwhile == "has ended it":
                successor.completed(number, 2.0, {0: 2.0})
            before = stored_rows(study, number)
            os.kill(stopped.pid, signal.SIGCONT)
            out, errors = stopped.communicate("\n", timeout=120)
            assert (stopped.returncode, out) == (0, "closed\n"), errors
            assert ("continues in another process" in errors) == (write != "nothing")
            assert stored_rows(study, number) == before
            if meanwhile == "runs it":
                successor.completed(number, 2.0, {0: 2.0})
    (trial,) = study.trials()
    assert (trial.state.name, trial.value, trial.intermediate_values) == ("COMPLETE", 2.0, {50: 2.0})
    assert trial.user_attrs == {"configuration": {"of": "the successor"}, "seed_values": {"0": 2.0}}
    assert [each.episode_return for each in storage.episodes.curve(study.episodes_key, number)] == [2.0]


WRITE = """
import sys
from studies.coordination import lease_manager
from studies.storage import server_timeouts
lease_manager.LEASE_SECONDS, lease_manager.RENEW_SECONDS, server_timeouts.IDLE_SECONDS = 1.0, 3600.0, 1.0
from studies.database.fencing import fenced
from studies.recording.opening import join_study
from studies.recording.recorder import Recorder
study = join_study("a study", sys.argv[1])
recorder = Recorder(study)
number = recorder.ask().number
recorder.started(number, {"of": "the one that was stopped"})
with fenced(study.leases.fence((number,))), study.storage.episodes.engine.begin():
    print("holding", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.real
@pytest.mark.parametrize("storage_url", ["postgresql", "mysql"], indirect=True)
def test_process_stopped_during_a_transaction_does_not_block_others(
    storage_url: str, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has to release the locks of the open transaction."""
    with open_study(make_spec(n_trials=1), storage):
        pass
    with running_script([WRITE, storage_url]) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        with join_until_free(storage) as study, Recorder(study) as successor:
            number = ask_until_free(successor).number
            run_half(successor, number)
            successor.completed(number, 2.0, {0: 2.0})
            before = stored_rows(study, number)
            os.kill(stopped.pid, signal.SIGCONT)
            stopped.communicate("\n", timeout=120)
            assert stored_rows(study, number) == before


class Server:
    """A proxy that can be stopped, and started again at the same port."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._server, self._port = make_proxy(storage, "127.0.0.1", 0)
        self._server.start()
        self.url = f"grpc://127.0.0.1:{self._port}"

    def stop(self) -> None:
        self._server.stop(grace=0).wait()

    def start(self) -> None:
        self._server, _ = make_proxy(self._storage, "127.0.0.1", self._port)
        self._server.start()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
        two = Server(opened), Server(opened)
        yield two
        for server in two:
            server.stop()


@pytest.mark.real
def test_write_delayed_by_the_network_is_rejected_after_a_takeover(
    servers: tuple[Server, Server], make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_manager, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(lease_manager, "RENEW_SECONDS", 3600.0)
    own, other = servers
    with open_storage(own.url) as disconnected, open_storage(other.url) as storage:
        first = Recorder(open_study(make_spec(n_trials=1), disconnected))
        number = ask_until_free(first).number
        first.started(number, {"of": "the one that was cut off"})
        own.stop()
        late = threading.Thread(target=first.completed, args=(number, 9.0, {0: 9.0}))
        late.start()
        study = join_study("a study", storage)
        with Recorder(study) as successor:
            assert ask_until_free(successor).number == number
            run_half(successor, number)
            before = stored_rows(study, number)
            assert late.is_alive(), "the process must wait for its storage"
            own.start()
            late.join(timeout=600)
            assert not late.is_alive()
            assert stored_rows(study, number) == before
            successor.completed(number, 2.0, {0: 2.0})
        first.close()
        (trial,) = study.trials()
        assert (trial.value, trial.user_attrs["configuration"]) == (2.0, {"of": "the successor"})
