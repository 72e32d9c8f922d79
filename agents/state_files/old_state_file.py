"""State files of earlier versions: a pickle, followed by a header as JSON."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import cloudpickle

_MAGIC = b"finder1\n"
_TAIL = struct.Struct(">I8s")  # length of the header, and the magic number
_OF_THE_FILE = ("crc", "size", "plain_crc", "plain_size")


def read_header(path: Path) -> dict[str, Any] | None:
    """Return the header of a file; None if it is incomplete, or not such a file."""
    header = _header_of(path)
    return None if header is None else {name: value for name, value in header.items() if name not in _OF_THE_FILE}


def read(path: Path) -> Any:
    """Return the state in a file. Unpickling can run any code: call it for trusted files only.

    Raises:
        ValueError: The file has changed since it was written.
        Exception: Any error of unpickling.
    """
    header = _header_of(path)
    if header is None:
        raise ValueError("it is not whole")
    with path.open("rb") as file:
        payload = file.read(int(header["size"]))
    if zlib.crc32(payload) != header["crc"]:
        raise ValueError("its checksum is wrong")
    return cloudpickle.loads(payload)


def _header_of(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            file.seek(-_TAIL.size, os.SEEK_END)
            length, magic = _TAIL.unpack(file.read(_TAIL.size))
            if magic != _MAGIC:
                return None
            file.seek(-_TAIL.size - length, os.SEEK_END)
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None
