"""A folder of datasets of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("minari", reason="minari is not installed")


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "datasets"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
