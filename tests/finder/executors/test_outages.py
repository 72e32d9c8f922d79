"""Tests of temporary and permanent database outages during a study."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from databases import OwnPostgres
from kills import DEADLINE_SECONDS, VARIABLE, Target, set_target
from optuna.trial import TrialState
from processes import end_session, session_members, wait_until_alone
from small_study import curves, start

from studies.database.retries import RETRY_VARIABLE
from studies.errors import StudyError
from studies.recording.spool import Spool
from studies.spec.attributes import seed_values
from studies.storage.storage import open_storage
from studies.study.study import load_study

OUTAGE_SECONDS = float(os.environ.get("FINDER_OUTAGE_SECONDS", "3"))
"""Duration of an outage in seconds."""


def wait_for_trials(url: str, name: str, n_trials: int) -> None:
    deadline = time.monotonic() + 120
    with contextlib.closing(open_storage(url)) as storage:  # opened once, so that polling is fast
        while time.monotonic() < deadline:
            with contextlib.suppress(StudyError):  # the study does not exist yet
                if sum(trial.state.is_finished() for trial in load_study(name, storage).all_trials()) >= n_trials:
                    return
            time.sleep(0.05)
    raise AssertionError(f"{name} did not end {n_trials} trials")


def wait_for_text(path: Path, text: str, process: Any) -> None:
    """Wait until a file has a text, or the process that writes it has ended: on a slow machine, calls are rare."""
    deadline = time.monotonic() + 120
    while text not in path.read_text() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.real
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_study_continues_when_its_database_is_back(
    own_postgres: OwnPostgres, tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    whole = f"sqlite:///{tmp_path}/whole.db"
    assert start(tmp_path, whole, "inline", "whole").wait() == 0
    process = start(tmp_path, own_postgres.url, executor, "cut")
    wait_for_trials(own_postgres.url, "cut", 1)
    own_postgres.stop()
    time.sleep(OUTAGE_SECONDS)
    wait_for_text(tmp_path / "output", "does not answer", process)
    assert process.poll() is None, (tmp_path / "output").read_text()
    own_postgres.start()
    assert process.wait() == 0, (tmp_path / "output").read_text()
    wait_until_alone(process.pid)
    output = (tmp_path / "output").read_text()
    assert "does not answer" in output
    assert "answers again" in output
    with load_study("cut", own_postgres.url) as study, load_study("whole", whole) as expected:
        assert {trial.state for trial in study.all_trials()} == {TrialState.COMPLETE}
        assert [seed_values(trial) for trial in study.all_trials()] == [
            seed_values(trial) for trial in expected.all_trials()
        ]
        assert curves(study) == curves(expected)
        assert study.storage.leases.held(study.episodes_key) == {}


@pytest.mark.real
def test_study_ends_without_data_loss_when_its_database_stays_unavailable(
    own_postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv(RETRY_VARIABLE, "2")
    process = start(tmp_path, own_postgres.url, "inline", "cut")
    wait_for_trials(own_postgres.url, "cut", 1)
    own_postgres.stop()
    assert process.wait() != 0
    output = (tmp_path / "output").read_text()
    assert re.search(r"has not answered for \d+ s", output)
    assert "start the study again" in output
    own_postgres.start()
    with load_study("cut", own_postgres.url) as study:
        before = {trial.number: trial.value for trial in study.all_trials() if trial.state.is_finished()}
        key = study.episodes_key
    kept = [trial.number for trial in Spool(own_postgres.url, key).read()]
    assert start(tmp_path, own_postgres.url, "inline", "cut").wait() == 0, (tmp_path / "output").read_text()
    with load_study("cut", own_postgres.url) as study:
        trials = study.all_trials()
        assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 4
        assert {number: trials[number].value for number in before} == before
        assert set(kept).isdisjoint(before)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_search_whose_leases_expired_changes_no_finished_trials(
    own_postgres: OwnPostgres, tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("FINDER_TEST_LEASE_SECONDS", "2")
    whole, url = f"sqlite:///{tmp_path}/whole.db", own_postgres.url
    assert start(tmp_path, whole, "inline", "whole").wait() == 0
    folder, successor = tmp_path / "strikes", tmp_path / "successor"
    folder.mkdir()
    successor.mkdir()
    set_target(folder, Target(1, 20))
    stopped = start(tmp_path, url, executor, "cut", **{VARIABLE: str(folder)})
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (folder / "reached").exists():
            assert stopped.poll() is None, (tmp_path / "output").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        members = session_members(stopped.pid)
        for pid in members:
            os.kill(pid, signal.SIGSTOP)
        worked = start(successor, url, "inline", "cut", "work")
        try:
            assert worked.wait(DEADLINE_SECONDS) == 0, (successor / "output").read_text()
        finally:
            end_session(worked)
        before = rows(url, "cut")
        (folder / "target").unlink()
        for pid in members:
            os.kill(pid, signal.SIGCONT)
        assert stopped.wait(DEADLINE_SECONDS) == 0, (tmp_path / "output").read_text()
        wait_until_alone(stopped.pid)
    finally:
        end_session(stopped)
    assert "Trial 1 continues in another process" in (tmp_path / "output").read_text()
    assert rows(url, "cut") == before
    with load_study("cut", url) as study, load_study("whole", whole) as expected:
        assert [seed_values(trial) for trial in study.all_trials()] == [
            seed_values(trial) for trial in expected.all_trials()
        ]
        assert curves(study) == curves(expected)
        assert study.storage.leases.held(study.episodes_key) == {}


def rows(url: str, name: str) -> Any:
    """Return all stored data of all trials."""
    with load_study(name, url) as study:
        found = [
            (each.state, each.values, each.params, each.user_attrs, each.intermediate_values, each.datetime_complete)
            for each in study.all_trials()
        ]
        return repr(found), curves(study)
