"""Read-only storages, and file names with characters that are special in URLs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from damaged import NAME, change, make_study

from studies.analysis.listing import list_studies
from studies.analysis.recommendation import best
from studies.errors import StudyError
from studies.recording.opening import delete_study, join_study
from studies.reports import write_report
from studies.servers.dashboard import make_dashboard
from studies.storage.storage import open_storage
from studies.storage.storage_url import parse_storage_url
from studies.study.study import load_study


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@contextlib.contextmanager
def as_another_user() -> Iterator[None]:
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


class TestUrlsOfFiles:
    @pytest.mark.parametrize("name", ["what?.db", "a%20b.db", "a b.db", "{SCHEMA_VERSION}.db", "a#b.db", "50%.db"])
    def test_path_characters_are_taken_literally(self, tmp_path: Path, name: str) -> None:
        with open_storage(str(tmp_path / name)):
            pass
        assert files_in(tmp_path) == {name}
        with open_storage(str(tmp_path / name)) as storage, open_storage(storage.url, create=False) as again:
            assert again.url == storage.url
        assert files_in(tmp_path) == {name}

    @pytest.mark.parametrize("name", ["what?.log", "a%20b.log"])
    def test_journal_path_characters_are_taken_literally(self, tmp_path: Path, name: str) -> None:
        with open_storage(str(tmp_path / name)):
            pass
        assert files_in(tmp_path) == {name, f"{name}.episodes.db"}

    @pytest.mark.parametrize("scheme", ["sqlite", "journal"])
    def test_percent_encoding_in_urls_is_decoded(self, tmp_path: Path, scheme: str) -> None:
        with open_storage(f"{scheme}:///{tmp_path}/a%20b%3F"):
            pass
        assert "a b?" in files_in(tmp_path)

    def test_existing_file_with_the_undecoded_name_raises(self, tmp_path: Path) -> None:
        (tmp_path / "a%20b.db").touch()
        with pytest.raises(StudyError, match="could be two files"):
            open_storage(f"sqlite:///{tmp_path}/a%20b.db")
        assert files_in(tmp_path) == {"a%20b.db"}

    def test_sqlite_uri_names_the_file_that_sqlite_opens(self, tmp_path: Path) -> None:
        with open_storage(f"{tmp_path}/a b.db"):
            pass
        url = f"sqlite:///file:{tmp_path}/a%2520b.db?uri=true"
        assert parse_storage_url(url).path == tmp_path / "a b.db"
        with open_storage(url, create=False):
            pass
        assert files_in(tmp_path) == {"a b.db"}

    def test_timeout_option_sets_the_busy_timeout(self, tmp_path: Path) -> None:
        path = tmp_path / "finder.db"
        with open_storage(str(path)):
            pass
        assert parse_storage_url(f"sqlite:///{path}?timeout=7").busy_seconds == 7
        with open_storage(f"sqlite:///{path}?timeout=7") as storage:
            engine = storage.episodes.engine  # type: ignore[attr-defined]
            with engine.connect() as connection:
                assert connection.connection.driver_connection.lock_seconds == 7


@pytest.fixture(scope="module")
def recorded() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        make_study(f"sqlite:///{folder}/finder.db")
        make_study(f"journal:///{folder}/finder.log")
        Path(folder).chmod(0o755)
        for path in Path(folder).iterdir():
            path.chmod(0o644)
        yield Path(folder)


def assert_readable(url: str, folder: Path) -> None:
    """Assert that listing, loading, recommending and reporting find the recorded data."""
    [summary] = list_studies(url)
    assert (summary.name, summary.n_complete, summary.best_value) == (NAME, 3, 200.0)
    with load_study(NAME, url) as study:
        assert best(study).params == {"learning_rate": 1e-3}
        assert len(study.storage.episodes.curve(study.episodes_key, 0)) == 8
        assert "0.001" in write_report(study, folder / "report.html").read_text()


def assert_writes_raise(url: str) -> None:
    """Assert that deleting, joining and setting attributes raise."""
    with pytest.raises(StudyError, match="can only be read"):
        delete_study(NAME, url)
    with pytest.raises(StudyError, match="can only be read"):
        join_study(NAME, url)
    with load_study(NAME, url) as study, pytest.raises(StudyError, match=r"readonly|only be read"):
        study.study.set_user_attr("mine", 1)


class TestReadOnly:
    @pytest.mark.parametrize(
        "url",
        ["sqlite:///{}/finder.db?mode=ro", "sqlite:///file:{}/finder.db?mode=ro&uri=true"],
        ids=["mode=ro", "a URI of SQLite's"],
    )
    def test_sqlite_with_mode_ro_is_read_only(self, recorded: Path, tmp_path: Path, url: str) -> None:
        before = (recorded / "finder.db").read_bytes()
        assert_readable(url.format(recorded), tmp_path)
        assert_writes_raise(url.format(recorded))
        assert (recorded / "finder.db").read_bytes() == before

    def test_journal_with_mode_ro_is_read_only(self, recorded: Path, tmp_path: Path) -> None:
        before = (recorded / "finder.log").read_bytes()
        assert_readable(f"journal:///{recorded}/finder.log?mode=ro", tmp_path)
        assert_writes_raise(f"journal:///{recorded}/finder.log?mode=ro")
        assert (recorded / "finder.log").read_bytes() == before

    @pytest.mark.real
    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user for a moment")
    @pytest.mark.parametrize("name", ["finder.db", "finder.log"])
    def test_file_of_another_user_is_read_only(self, recorded: Path, name: str) -> None:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            Path(folder).chmod(0o777)
            before = files_in(recorded)
            with as_another_user():
                assert_readable(str(recorded / name), Path(folder))
                assert_writes_raise(str(recorded / name))
            assert files_in(recorded) == before

    @pytest.mark.real
    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user for a moment")
    def test_unmerged_write_ahead_log_raises(self) -> None:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            path = Path(folder, "finder.db")
            make_study(f"sqlite:///{path}")
            with contextlib.closing(sqlite3.connect(path)) as writer:
                writer.execute("PRAGMA wal_autocheckpoint=0")
                writer.execute("UPDATE studies SET study_name = 'renamed'")
                writer.commit()
                files = {each.name: each.read_bytes() for each in Path(folder).iterdir()}
            for name in ("finder.db", "finder.db-wal"):  # the state after a killed process
                Path(folder, name).write_bytes(files[name])
                Path(folder, name).chmod(0o644)
            Path(folder, "finder.db-shm").unlink(missing_ok=True)
            Path(folder).chmod(0o755)
            with as_another_user(), pytest.raises(StudyError, match=r"has changes in finder\.db-wal beside it"):
                list_studies(str(path))

    def test_dashboard_shows_a_read_only_study(self, recorded: Path) -> None:
        before = (recorded / "finder.db").read_bytes()
        with open_storage(f"sqlite:///{recorded}/finder.db?mode=ro", create=False) as storage:
            server = make_dashboard(storage, port=0)
            try:
                [picked] = server.keeper.picks().values()  # type: ignore[attr-defined]
                assert picked["name"] == "Finder's pick"
                assert server.keeper.update() == []  # type: ignore[attr-defined]
            finally:
                server.server_close()
        assert (recorded / "finder.db").read_bytes() == before

    def test_tables_of_an_earlier_version_are_read(self, recorded: Path, tmp_path: Path) -> None:
        path = tmp_path / "finder.db"
        path.write_bytes((recorded / "finder.db").read_bytes())
        change(path, "DROP TABLE finder_leases", "DELETE FROM finder_schema", "INSERT INTO finder_schema VALUES (1)")
        assert_readable(f"sqlite:///{path}?mode=ro", tmp_path)

    def test_newer_schema_version_raises(self, recorded: Path, tmp_path: Path) -> None:
        path = tmp_path / "finder.db"
        path.write_bytes((recorded / "finder.db").read_bytes())
        change(path, "UPDATE finder_schema SET version = 99")
        with pytest.raises(StudyError, match="schema 99"):
            list_studies(f"sqlite:///{path}?mode=ro")
