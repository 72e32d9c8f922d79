"""Files with a state as versions before wrote them: a pickle, and behind it, as JSON, what the file says of itself."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import cloudpickle

_MAGIC = b"finder1\n"
_TAIL = struct.Struct(">I8s")  # length of what the file says about itself, and the magic number
_OF_THE_FILE = ("crc", "size", "plain_crc", "plain_size")


def about(path: Path) -> dict[str, Any] | None:
    """Return what a file says that it holds; None if it is not whole, or none of these."""
    told = _told(path)
    return None if told is None else {name: value for name, value in told.items() if name not in _OF_THE_FILE}


def read(path: Path) -> Any:
    """Return the state in a file. Unpickling runs what the file says: call it for files that are trusted.

    Raises:
        ValueError: The file is not what it was when it was written.
        Exception: What unpickling it raises.
    """
    told = _told(path)
    if told is None:
        raise ValueError("it is not whole")
    with path.open("rb") as file:
        payload = file.read(int(told["size"]))
    if zlib.crc32(payload) != told["crc"]:
        raise ValueError("its checksum is wrong")
    return cloudpickle.loads(payload)


def _told(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            file.seek(-_TAIL.size, os.SEEK_END)
            length, magic = _TAIL.unpack(file.read(_TAIL.size))
            if magic != _MAGIC:
                return None
            file.seek(-_TAIL.size - length, os.SEEK_END)
            told = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
