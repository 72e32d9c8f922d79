"""Tests of the note on storage files that are on a network file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.recording import network_disks
from studies.recording.network_disks import note_on_network_disks

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:5 - nfs4 server:/home rw
31 30 8:2 / /home/local rw - ext4 /dev/sdb1 rw
32 22 0:41 / /my\\040disk rw - fuse.glusterfs volume rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/finder.db", ""),
        ("/home/me/finder.db", "nfs4"),
        ("/homes/finder.db", ""),
        ("/home/local/finder.db", ""),
        ("/my disk/finder.db", "glusterfs"),
    ],
)
def test_files_on_network_file_systems_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(network_disks, "_MOUNTS", tmp_path / "mountinfo")
    note = note_on_network_disks([Path(path)])
    assert (f"{path} is on a network file system ({kind})" in note) if kind else not note


def test_systems_without_a_list_of_mounts_have_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_disks, "_MOUNTS", tmp_path / "none")
    assert note_on_network_disks([tmp_path]) == ""
