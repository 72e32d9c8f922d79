"""Checkpoints with a pickle that creates a marker file when it is read."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any


class Evil:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


def insert_pickle(path: Path, section: str, marker: Path) -> None:
    """Put a pickle that creates a marker into a section of a checkpoint, without a new signature."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[f"{section}.pickle"] = pickle.dumps([Evil(marker)])
    parts[f"{section}.json"] = json.dumps({"object": 0}).encode()
    parts.pop(f"{section}.arrays", None)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def write_old_format(path: Path, marker: Path) -> None:
    """Write a checkpoint in the format of earlier versions, with a pickle that creates a marker."""
    with zipfile.ZipFile(path) as archive:
        about = json.loads(archive.read("about.json"))
    payload = pickle.dumps({"trainer": Evil(marker), "spec": Evil(marker)})
    about |= {"format": 1, "crc": zlib.crc32(payload), "size": len(payload)}
    encoded = json.dumps(about).encode()
    path.write_bytes(payload + encoded + struct.pack(">I8s", len(encoded), b"finder1\n"))
