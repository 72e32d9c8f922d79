"""Tests of files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.state_files.whole_file import replacing


def test_replacing_syncs_file_and_then_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "file", []
    fsync = os.fsync

    def recording_fsync(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").resolve() == tmp_path, path.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    with replacing(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert synced == [(False, False), (True, True)], "the folder must be synced after the rename"
