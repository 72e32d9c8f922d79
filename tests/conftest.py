"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import processes
import pytest

from agents.shared_objects import place


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
