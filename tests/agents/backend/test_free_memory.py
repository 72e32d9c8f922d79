"""Tests of the free memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.backend import memory


def test_memory_limits_of_containers_are_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("agents.backend.cores.CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    assert memory.free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2000 kB\n")
    assert memory.free_memory() == 2_048_000
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.free_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() == 2_048_000
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("700000\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("400000\n")
    assert memory.free_memory() == 300_000
