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


@pytest.mark.parametrize(
    ("limit", "used", "cache"),
    [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
    ids=["version 2", "version 1"],
)
def test_page_cache_of_a_container_is_free(
    limit: str, used: str, cache: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("agents.backend.cores.CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / limit).write_text("1000000\n")
    (tmp_path / used).write_text("900000\n")
    (tmp_path / "memory.stat").write_text(f"anon 100000\nfile 750000\n{cache} 700000\nactive_file 50000\n")
    assert memory.free_memory() == 800_000
