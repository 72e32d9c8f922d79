"""Storage files that are deleted or replaced while a study runs."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from studies.database.records import EpisodeRecord
from studies.database.retries import StorageAwayError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.recording.spool import Spool
from studies.spec.spec import StudySpec
from studies.storage.storage import open_storage
from studies.storage.watched_file import WatchedFile, WatchedJournal
from studies.study.study import load_study

Make = Callable[..., StudySpec]
MakeEpisode = Callable[..., EpisodeRecord]


def unrelated_database(path: Path) -> bytes:
    """Create a database without studies, and return its bytes."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE precious (value)")
        connection.executemany("INSERT INTO precious VALUES (?)", [(number,) for number in range(1000)])
    return path.read_bytes()


@pytest.mark.parametrize("by", ["deleted", "deleted with its log", "replaced"])
@pytest.mark.slow
def test_deleted_or_replaced_database_ends_the_study_and_is_rescued(
    tmp_path: Path, make_spec: Make, episode: MakeEpisode, by: str
) -> None:
    path = tmp_path / "finder.db"
    spec = make_spec(n_trials=3, storage=f"sqlite:///{path}")
    study = open_study(spec)
    recorder = Recorder(study)
    recorder.ask(), recorder.ask()
    recorder.completed(0, 5.0)
    recorder.episodes(1, [episode()])
    precious = unrelated_database(tmp_path / "other.db")
    if by == "replaced":
        os.replace(tmp_path / "other.db", path)
    else:
        for each in [path, *([] if by == "deleted" else tmp_path.glob("finder.db-*"))]:
            each.unlink()
    with pytest.raises(StorageAwayError, match=r"finder.db was deleted or replaced .* in finder-rescued-1.db"):
        recorder.completed(1, 6.0, {0: 6.0})
    assert recorder.is_cut_off
    assert recorder.ask() is None
    recorder.close()
    study.close()
    if by == "replaced":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT COUNT(*) FROM precious").fetchone() == (1000,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert path.read_bytes() == precious
    else:
        assert not path.exists()
    shutil.copy(tmp_path / "finder-rescued-1.db", path)
    with open_study(spec) as again, Recorder(again) as recorder:
        assert [trial.value for trial in again.trials()] == [5.0, 6.0]
        assert len(again.storage.episodes.curve(again.episodes_key, 1)) == 1
        assert recorder.spool_path is None
        assert recorder.ask() is not None


def test_deleted_journal_is_not_recreated(tmp_path: Path, make_spec: Make) -> None:
    path = tmp_path / "finder.log"
    spec = make_spec(n_trials=2, storage=f"journal:///{path}")
    study = open_study(spec)
    recorder = Recorder(study)
    recorder.ask()
    text = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageAwayError, match=r"finder.log was deleted or replaced"):
        recorder.completed(0, 6.0)
    recorder.close()
    study.close()
    assert not path.exists()
    assert [kept.number for kept in Spool(spec.storage, study.episodes_key).read()] == [0]
    path.write_bytes(text)
    with open_study(spec) as again, Recorder(again):
        assert [trial.value for trial in again.trials()] == [6.0]


def test_incomplete_last_line_of_a_journal_is_cut_before_the_next_line(tmp_path: Path, make_spec: Make) -> None:
    path = tmp_path / "finder.log"
    spec = make_spec(n_trials=3, storage=f"journal:///{path}")
    with open_study(spec) as study, Recorder(study) as recorder:
        recorder.ask()
        recorder.completed(0, 5.0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code":4,"worker_id":"' + 9_000 * b"x")  # longer than what is read at once
    with open_study(spec) as study, Recorder(study) as recorder:
        recorder.ask()
        recorder.completed(1, 6.0)
    assert path.read_bytes().startswith(whole)
    assert all(json.loads(line) for line in path.read_bytes().splitlines())
    with open_study(spec) as again:
        assert [trial.value for trial in again.trials()] == [5.0, 6.0]


@contextlib.contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Limit the size of files that this process writes; a write beyond it is done in part, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_append_that_fails_half_way_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "finder.log"
    journal = WatchedJournal(path, WatchedFile(path))
    journal.append_logs([{"number": 1}])
    before = path.read_bytes()
    with largest_file(len(before) + 5), pytest.raises(OSError, match="File too large"):
        journal.append_logs([{"number": 2}])
    assert path.read_bytes() == before
    journal.append_logs([{"number": 3}])
    assert [log["number"] for log in journal.read_logs(0)] == [1, 3]


def test_lock_of_a_process_that_was_killed_in_an_append_can_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna waits for ever for a lock whose link leads nowhere, as that of a relative path in a folder would."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    path = Path("runs/finder.log")
    journal = WatchedJournal(path, WatchedFile(path))
    journal._lock.acquire()
    assert Path("runs/finder.log.lock").exists(), "the link leads to the journal"
    journal._lock.release()


def test_reader_continues_after_the_file_was_deleted(tmp_path: Path, make_spec: Make) -> None:
    url = f"sqlite:///{tmp_path}/finder.db"
    with open_study(make_spec(storage=url)):
        pass
    with open_storage(url, create=False) as storage:
        (tmp_path / "finder.db").unlink()
        assert load_study("a study", storage).trials() == []


SEARCH = """
import os, sys
from finder import LRFinder
from agents import Callback

class Deletes(Callback):
    def on_episode_end(self, trainer, episode):
        if os.path.exists("finder.db") and episode.env_steps > 200:
            os.unlink("finder.db")

LRFinder("ppo", "CartPole-v1").grid(
    1e-4, 1e-2, 3, env_steps=1_000, seeds=1, executor="inline", pruner="none", confirm=0, extend=False,
    storage="sqlite:///finder.db", callbacks=[Deletes],
    params={"jit_compile": False, "n_steps": 32, "n_envs": 4, "batch_size": 32, "n_epochs": 2, "hidden_sizes": [16]},
)
"""


@pytest.mark.real
def test_search_with_deleted_database_ends_with_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEARCH], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode != 0
    assert "finder.db was deleted or replaced while the study ran" in done.stderr
    assert "Restore the file" in done.stderr
    assert (tmp_path / "finder-rescued-1.db").exists()
