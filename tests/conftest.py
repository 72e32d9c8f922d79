"""Fixtures for all tests."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator

import processes
import pytest
from require_all import (  # noqa: F401 - hooks
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_terminal_summary,
)

from agents.shared_objects import place
from agents.trust.signatures import KEY_VARIABLE, TRUST_VARIABLE

# Finder does not need PyTorch and others: `make test-libraries` runs these in a virtual environment of their own.
_LIBRARIES = ("torch", "stable_baselines3", "sb3_contrib", "mlflow", "wandb")
collect_ignore = [] if all(map(importlib.util.find_spec, _LIBRARIES)) else ["libraries"]


@pytest.fixture(scope="session", autouse=True)
def _temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a temporary directory that is deleted at the end, with the files of killed processes (`pymp-...`)."""
    tmp_path_factory.getbasetemp()  # created before TMPDIR changes
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(
        prefix="finder-", ignore_cleanup_errors=True
    ) as folder:  # a short path, for sockets
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        yield
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show no progress of searches and trainings that a test calls from Python."""
    monkeypatch.setenv("FINDER_PROGRESS", "0")


@pytest.fixture(autouse=True)
def _own_shared_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test without shared objects; processes that a test starts share objects with that test alone."""
    monkeypatch.setenv(place.VARIABLE, "")  # so that monkeypatch restores the former value
    monkeypatch.delenv(place.VARIABLE)
    monkeypatch.setattr(place, "_here", place.Place())


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Handle signals in this process even if its parent ignores them, for tests that send signals."""
    with processes.usual_signals():
        yield


@pytest.fixture(scope="session", autouse=True)
def _temporary_signing_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write the signing key into a temporary folder, not into the home directory of the user."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(KEY_VARIABLE, str(tmp_path_factory.getbasetemp() / "key"))
        patched.delenv(TRUST_VARIABLE, raising=False)
        yield
