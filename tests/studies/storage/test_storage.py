"""Opening storages: URLs, unusable files, servers, SQLite settings, and tables of older versions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from episode_count import n_episodes

from studies.database.retries import RetryPolicy
from studies.database.schema import leases
from studies.errors import StudyError
from studies.storage.server_timeouts import options_of_server
from studies.storage.storage import StudyStorage, open_storage
from studies.storage.storage_url import check_file, parse_storage_url


@pytest.mark.parametrize(
    ("url", "kind", "path"),
    [
        ("memory", "memory", None),
        ("sqlite:///:memory:", "memory", None),
        ("finder.db", "sqlite", "finder.db"),
        ("/data/x.sqlite3", "sqlite", "/data/x.sqlite3"),
        ("sqlite:///finder.db", "sqlite", "finder.db"),
        ("sqlite:////data/x", "sqlite", "/data/x"),
        ("journal:///finder.log", "journal", "finder.log"),
        ("journal:////data/finder.log", "journal", "/data/finder.log"),
        ("x/finder.jsonl", "journal", "x/finder.jsonl"),
        ("postgresql+psycopg://u:secret@h/d", "server", None),
        ("mysql+pymysql://u@h/d", "server", None),
    ],
)
def test_storage_urls_are_parsed(url: str, kind: str, path: str | None) -> None:
    address = parse_storage_url(url)
    assert address.kind == kind
    assert address.path == (None if path is None else Path(path))
    assert "secret" not in address.label


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("mysql://u:secret@h/d", "mysql+pymysql://u:secret@h/d"),
        ("mariadb://h/d", "mariadb+pymysql://h/d"),
        ("postgresql://h:1/d", "postgresql+psycopg://h:1/d"),
        ("mysql+mysqldb://h/d", "mysql+mysqldb://h/d"),
    ],
)
def test_url_without_a_driver_uses_the_driver_of_the_extras(url: str, meant: str) -> None:
    address = parse_storage_url(url)
    assert address.url == meant
    assert address.label == url.replace("secret", "***")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", ["finder.db"]),
        ("studies", ["'studies'", "no known ending"]),
        ("postgres://h/d", ["'postgres'", "'postgresql'"]),
        ("redis://h", ["'redis'"]),
        ("journal:///", ["names no file"]),
        ("sqlite:///", ["names no file"]),
        ("postgresql://h:port/d", ["cannot be read"]),
        ("postgresql+nodriver://h/d", ["unknown database driver", "nodriver"]),
    ],
)
def test_invalid_url_names_the_problem(url: str, words: list[str]) -> None:
    with pytest.raises(StudyError) as error:
        open_storage(url)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("ending", ["db", "log"])
def test_unusable_files_raise_and_are_not_changed(tmp_path: Path, ending: str) -> None:
    with pytest.raises(StudyError, match="make the directory"):
        open_storage(f"{tmp_path}/none/finder.{ending}")
    folder = tmp_path / f"folder.{ending}"
    folder.mkdir()
    with pytest.raises(StudyError, match="is a directory"):
        open_storage(str(folder))
    text = tmp_path / f"text.{ending}"
    text.write_text("just some notes\n" * 10)
    with pytest.raises(StudyError, match="is not an"):
        open_storage(str(text))
    assert text.read_text() == "just some notes\n" * 10
    with pytest.raises(StudyError, match="there is no storage"):
        open_storage(f"{tmp_path}/new.{ending}", create=False)
    assert not (tmp_path / f"new.{ending}").exists()


def test_sqlite_file_opened_as_journal_raises(tmp_path: Path) -> None:
    with open_storage(f"sqlite:///{tmp_path}/finder.db"):
        pass
    with pytest.raises(StudyError, match="use sqlite:///"):
        open_storage(f"journal:///{tmp_path}/finder.db")


def test_corrupt_database_raises(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    with pytest.raises(StudyError, match="is not an SQLite database"):
        open_storage(str(path))


def test_journal_with_a_corrupt_line_raises(tmp_path: Path) -> None:
    path = tmp_path / "broken.log"
    path.write_text(
        '{"op_code": 0, "worker_id": "a", "study_name": "s", "directions": [1]}\nnot json\n{"op_code": 1}\n'
    )
    with pytest.raises(StudyError, match="cannot be used"):
        open_storage(str(path))


def test_read_only_uri_without_tables_raises(tmp_path: Path) -> None:
    path = tmp_path / "finder.db"
    with open_storage(str(path)):
        pass
    sqlite3.connect(path).execute("DROP TABLE finder_schema").connection.close()
    with pytest.raises(StudyError, match="cannot be opened"):
        open_storage(f"sqlite:///file:{path}?mode=ro&uri=true")


def test_unreachable_server_raises_without_the_password() -> None:
    with pytest.raises(StudyError) as error:
        open_storage("postgresql+psycopg://user:secret@127.0.0.1:1/none")
    assert "secret" not in str(error.value)
    assert "***" in str(error.value)


@pytest.mark.parametrize("url", ["postgresql://user:***@h/d", "mysql+pymysql://user@h/d?password=***"])
def test_storage_from_a_message_without_its_password_is_refused(url: str) -> None:
    with pytest.raises(StudyError, match=r"has stars in place of its password.*OPTUNA_STORAGE"):
        open_storage(url)


def test_missing_driver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(StudyError, match=r"pip install 'psycopg\[binary\]'"):
        open_storage("postgresql+psycopg://h/d")
    with pytest.raises(StudyError, match="pip install pymysql"):
        open_storage("mysql+pymysql://h/d")


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("postgresql+psycopg://h/d", {"tcp_user_timeout": 30_000}),
        ("postgresql+psycopg://h/d?tcp_user_timeout=3", {"keepalives_idle": 15}),
        ("mysql+pymysql://h/d", {"connect_timeout": 10, "read_timeout": 60, "write_timeout": 60}),
        ("postgresql+psycopg2://h/d", {}),
    ],
)
def test_server_connections_have_timeouts(url: str, arguments: dict[str, int]) -> None:
    options = options_of_server(url, RetryPolicy("a storage"))
    assert arguments.items() <= options["connect_args"].items()
    assert ("tcp_user_timeout" in options["connect_args"]) == ("tcp_user_timeout" in arguments)
    assert ("module" in options) == ("psycopg:" in url)  # psycopg is wrapped to limit all calls, connecting included


@pytest.mark.real
@pytest.mark.parametrize("storage_url", ["mysql", "postgresql"], indirect=True)
def test_servers_lock_only_the_rows_that_a_transaction_changes(storage: StudyStorage) -> None:
    """A process renews its leases while another one holds the lock of its own."""
    for number, owner in enumerate(["one", "other"]):
        assert storage.leases.take("s", number, owner, 60.0)
    with storage.episodes.engine.begin() as connection:  # type: ignore[attr-defined]
        assert connection.get_isolation_level() == "READ COMMITTED"
        connection.execute(leases.update().where(leases.c.number == 1).values(epoch=1))
        began = time.monotonic()
        assert storage.leases.renew("s", "one", 60.0) == {0}
        assert time.monotonic() - began < 10


def test_sqlite_uses_wal_and_a_busy_timeout(tmp_path: Path) -> None:
    with open_storage(f"{tmp_path}/finder.db") as storage:
        engine = storage.episodes.engine
        with engine.connect() as connection:
            assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
            assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 1
            assert connection.connection.driver_connection.lock_seconds == 30
            assert connection.execute(sa.text("PRAGMA busy_timeout")).scalar() == 1_000  # of a single attempt
    assert not (tmp_path / "finder.db-wal").exists()  # closing merges the write-ahead log into the file


def test_journal_stores_episodes_in_a_file_beside_it(tmp_path: Path) -> None:
    with open_storage(f"journal:///{tmp_path}/finder.log"):
        pass
    assert (tmp_path / "finder.log.episodes.db").exists()


def test_newer_schema_version_raises(tmp_path: Path) -> None:
    path = modified_storage(tmp_path, "UPDATE finder_schema SET version = 99")
    with pytest.raises(StudyError, match="schema 99"):
        open_storage(str(path))


def modified_storage(folder: Path, *statements: str) -> Path:
    """Return the file of a new storage after these SQL statements."""
    path = folder / "finder.db"
    with open_storage(str(path)):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


class TestOlderVersions:
    def test_tables_of_version_1_are_migrated_with_their_rows(self, tmp_path: Path) -> None:
        path = modified_storage(
            tmp_path,
            "DROP TABLE finder_leases",
            "DELETE FROM finder_schema",
            "INSERT INTO finder_schema VALUES (1)",
            "INSERT INTO finder_episodes VALUES ('s', 0, 0, 0, 10, 1.5, 10, NULL, 0.5)",
        )
        with open_storage(str(path)) as storage:
            assert storage.leases.take("s", 0, "somebody", 1.0)
            assert n_episodes(storage, "s") == 1
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT version FROM finder_schema ORDER BY 1").fetchall() == [(1,), (2,), (3,)]
        with open_storage(str(path)):
            pass

    def test_leases_of_version_2_are_kept_and_get_epochs(self, tmp_path: Path) -> None:
        path = modified_storage(
            tmp_path,
            "ALTER TABLE finder_leases DROP COLUMN epoch",
            "DELETE FROM finder_schema",
            "INSERT INTO finder_schema VALUES (2)",
            "INSERT INTO finder_leases VALUES ('s', 0, 'somebody', 0.5)",
        )
        with open_storage(str(path)) as storage:
            lease = storage.leases.held("s")[0]
            assert (lease.owner, lease.epoch) == ("somebody", 1)
            assert storage.leases.take("s", 0, "another", 1.0, instead_of=lease) == 2

    def test_interrupted_table_creation_is_completed(self, tmp_path: Path) -> None:
        path = tmp_path / "finder.db"
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE finder_schema (version INTEGER PRIMARY KEY)")
        with open_storage(str(path)) as storage:
            assert storage.leases.held("s") == {}
            assert n_episodes(storage, "s") == 0

    def test_older_optuna_schema_names_the_upgrade_command(self, tmp_path: Path) -> None:
        path = modified_storage(tmp_path, "UPDATE alembic_version SET version_num = 'v0.9.0.a'")
        with pytest.raises(StudyError, match=r"cannot be used: .*optuna storage upgrade"):
            open_storage(str(path))

    @pytest.mark.real
    def test_processes_create_the_tables_concurrently(self, postgres: str) -> None:
        name = f"made_by_many_{os.getpid()}"
        with contextlib.ExitStack() as stack:
            engine = sa.create_engine(postgres, isolation_level="AUTOCOMMIT")
            stack.callback(engine.dispose)
            with engine.connect() as connection:
                connection.execute(sa.text(f"CREATE DATABASE {name}"))
            url = sa.make_url(postgres).set(database=name).render_as_string(hide_password=False)
            code = "import sys; from studies.storage.storage import open_storage; open_storage(sys.argv[1]).close()"
            processes = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(6)]
            assert [process.wait() for process in processes] == [0] * 6
            with engine.connect() as connection:
                connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.mark.slow
def test_check_file_keeps_the_locks_of_an_open_file(tmp_path: Path) -> None:
    """Opening and closing the file in this process would release its locks; others would then delete the log."""
    path = tmp_path / "finder.db"
    with open_storage(str(path)) as storage:
        engine = storage.episodes.engine  # type: ignore[attr-defined]
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT count(*) FROM finder_episodes"))
            check_file(parse_storage_url(str(path)), create=False)
            code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA user_version'); c.close()"
            subprocess.run([sys.executable, "-c", code, str(path)], check=True)
            assert path.with_name("finder.db-wal").exists()


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user for a moment")
@pytest.mark.parametrize("ending", ["db", "log"])
def test_files_of_another_user_raise(ending: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a folder that other users can enter
        path = Path(folder, f"finder.{ending}")
        with open_storage(str(path)):
            pass
        Path(folder).chmod(0o755)
        path.chmod(0o644)
        os.setresuid(65534, 65534, 0)
        try:
            with pytest.raises(StudyError, match="not readable and writable"):
                open_storage(str(path))
            with pytest.raises(StudyError, match="the directory is not writable"):
                open_storage(f"{folder}/new.{ending}")
        finally:
            os.setresuid(0, 0, 0)


def test_version_table_that_cannot_be_read_is_named_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_storage(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    page_size = connection.execute("PRAGMA page_size").fetchone()[0]
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'version_info'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * page_size)
        file.write(b"\xff" * page_size)
    with pytest.raises(StudyError, match=r"the storage .* is damaged"):
        open_storage(f"sqlite:///{path}")
