"""What all tests share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import processes
import pytest
from require_all import (  # noqa: F401 - hooks
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

from agents.shared_objects import place
from agents.trust.signatures import KEY_VARIABLE, TRUST_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _leaves_no_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that are killed leave theirs (`pymp-...`) where they were told to have them."""
    tmp_path_factory.getbasetemp()  # is where it always is
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="finder-", ignore_cleanup_errors=True) as folder:  # paths of sockets: short
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        yield
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


@pytest.fixture(autouse=True)
def _shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches and trainings that a test calls from Python are not shown."""
    monkeypatch.setenv("FINDER_PROGRESS", "0")


@pytest.fixture(autouse=True)
def _shares_with_no_other_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins as a process that shares no objects yet, and processes that it starts share with it alone."""
    monkeypatch.setenv(place.VARIABLE, "")  # for monkeypatch to restore what was there
    monkeypatch.delenv(place.VARIABLE)
    monkeypatch.setattr(place, "_here", place.Place())


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """A test that sends signals to this process: it hears them, whatever the one that started it ignores."""
    with processes.usual_signals():
        yield


@pytest.fixture(scope="session", autouse=True)
def _signs_with_a_key_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test writes a key into the folders of whoever runs it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(KEY_VARIABLE, str(tmp_path_factory.getbasetemp() / "key"))
        patched.delenv(TRUST_VARIABLE, raising=False)
        yield
