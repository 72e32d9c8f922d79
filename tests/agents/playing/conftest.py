"""A folder of datasets of its own for each test that records."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("minari", reason="minari is not installed")
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
