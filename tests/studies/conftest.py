"""Fixtures for the tests of studies: specs, storages of every kind, episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from databases import mysql, own_postgres, postgres  # noqa: F401 - fixtures

from studies.database.records import EpisodeRecord
from studies.servers.proxy import make_proxy
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage

STORAGES = [
    "memory",
    "sqlite",
    "journal",
    pytest.param("postgresql", marks=pytest.mark.real),
    pytest.param("mysql", marks=pytest.mark.real),
    pytest.param("grpc", marks=pytest.mark.real),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a class named TestEveryStorage, a contract suite, on every storage that supports it."""
    if metafunc.cls is not None and metafunc.cls.__name__ == "TestEveryStorage":
        is_between_processes = metafunc.definition.get_closest_marker("between_processes") is not None
        metafunc.parametrize("storage_url", STORAGES[1:] if is_between_processes else STORAGES, indirect=True)


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


@pytest.fixture
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of each of STORAGES in a contract suite, and of a SQLite file in other tests."""
    kind = getattr(request, "param", "sqlite")
    if kind in ("postgresql", "mysql"):
        url: str = request.getfixturevalue({"postgresql": "postgres", "mysql": "mysql"}[kind])
        return url
    if kind == "grpc":
        served: str = request.getfixturevalue("proxy_url")
        return served
    return {
        "memory": "memory",
        "sqlite": f"sqlite:///{tmp_path}/finder.db",
        "journal": f"journal:///{tmp_path}/finder.log",
    }[kind]


@pytest.fixture
def proxy_url(tmp_path: Path) -> Iterator[str]:
    """A proxy in front of a SQLite file."""
    with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
        server, port = make_proxy(opened, "127.0.0.1", 0)
        server.start()
        yield f"grpc://127.0.0.1:{port}"
        server.stop(grace=1).wait()


@pytest.fixture
def storage(storage_url: str) -> Iterator[StudyStorage]:
    with open_storage(storage_url) as opened:
        yield opened
        if storage_url.startswith(("postgresql", "mysql")):
            for frozen in opened.optuna.get_all_studies():
                opened.optuna.delete_study(frozen._study_id)
            with opened.episodes.engine.begin() as connection:
                connection.execute(sa.text("DELETE FROM finder_episodes"))
                connection.execute(sa.text("DELETE FROM finder_leases"))


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
