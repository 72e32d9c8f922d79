"""Fixtures shared by the tests of finder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from databases import mysql, own_postgres, postgres  # noqa: F401 - fixtures

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """URL of a new SQLite storage."""
    return f"sqlite:///{tmp_path}/finder.db"
