"""The checkpoint folder: the same for all machines of a study, different for every study."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.study.checkpoint_folder import CHECKPOINTS_VARIABLE, checkpoint_folder

ADDRESSES = (
    "postgresql://one:secret@db.example.org/finder",
    "postgresql+psycopg://another@10.0.0.7:5432/finder",
    "grpc://head:13000",
)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CHECKPOINTS_VARIABLE, str(tmp_path))
    return tmp_path


def test_checkpoint_folder_does_not_depend_on_the_storage_address(shared: Path) -> None:
    folders = {checkpoint_folder(address, "a study#0123abcd") for address in ADDRESSES}
    assert len(folders) == 1
    assert folders.pop().parent == shared  # type: ignore[union-attr]


def test_studies_of_the_same_name_have_different_checkpoint_folders(shared: Path) -> None:
    assert checkpoint_folder(ADDRESSES[0], "a study#1") != checkpoint_folder(ADDRESSES[0], "a study#2")
    assert checkpoint_folder(ADDRESSES[0], "a study") != checkpoint_folder(ADDRESSES[2], "a study"), (
        "the folder of earlier versions must stay distinct"
    )
