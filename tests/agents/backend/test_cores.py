"""Tests of the cores that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.backend import cores as module
from agents.backend.cores import cores, cores_of_quota


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of control groups of a machine with 64 cores."""
    monkeypatch.setattr(module, "CGROUP", tmp_path)
    monkeypatch.setattr(module, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    return tmp_path


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_all_cores_are_usable_without_a_quota(groups: Path):
    assert (cores(), cores_of_quota()) == (64, None)
    write(groups, cpu__max="max 100000")
    write(groups / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert (cores(), cores_of_quota()) == (64, None)


@pytest.mark.parametrize(("quota", "usable"), [("50000", 1), ("100000", 1), ("150000", 2), ("9900000", 64)])
def test_quota_is_rounded_up_to_cores(groups: Path, quota: str, usable: int):
    write(groups, cpu__max=f"{quota} 100000")
    assert cores() == usable


def test_quota_of_version_1_is_respected(groups: Path):
    write(groups / "cpu", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    assert cores() == 3


def test_smallest_quota_of_nested_groups_counts(groups: Path):
    write(groups, own="0::/outer.slice/inner.scope")
    write(groups / "outer.slice", cpu__max="200000 100000")
    write(groups / "outer.slice" / "inner.scope", cpu__max="400000 100000")
    assert cores() == 2
    write(groups, own="5:cpu,cpuacct:/docker/1\n4:memory:/docker/1")
    write(groups / "cpu" / "docker" / "1", cpu__cfs_quota_us="100000", cpu__cfs_period_us="100000")
    assert cores() == 1


def test_group_of_the_host_that_a_container_does_not_see_is_ignored(groups: Path):
    write(groups, own="0::/../../elsewhere", cpu__max="500000 100000")
    assert cores() == 5
