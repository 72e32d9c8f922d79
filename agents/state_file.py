"""Files that hold a state: there as a whole or not at all, checked, and with what they hold told at their end.

What a file says about itself stands behind the state, as JSON: it can be read without the rest, and without the classes
that the state is made of.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import cloudpickle

from agents.whole_file import replacing

SUFFIX = ".checkpoint"

_MAGIC = b"finder1\n"
_TAIL = struct.Struct(">I8s")  # length of what the file says about itself, and the magic number


def write(path: Path, state: Any, about: Mapping[str, Any], plain: bytes = b"") -> None:
    """Writes a file; it is there as a whole or as it was before, whatever happens meanwhile.

    Args:
        path: The file, in a folder that is there.
        state: What it holds, anything that can be pickled.
        about: What it says about itself, as JSON values; its size and checksum are added.
        plain: What of the state can be read without unpickling (`agents.plain_state`). Defaults to nothing.

    Raises:
        OSError: It cannot be written.
        Exception: Whatever pickling the state raises.
    """
    with replacing(path) as file:
        checked = _Checked(file)
        cloudpickle.dump(state, checked)
        file.write(plain)
        sizes = {"crc": checked.crc, "size": checked.size}
        if plain:
            sizes.update(plain_crc=zlib.crc32(plain), plain_size=len(plain))
        encoded = json.dumps({**about, **sizes}).encode()
        file.write(encoded + _TAIL.pack(len(encoded), _MAGIC))


def write_with_environments(write_one: Callable[[bool], None]) -> None:
    """Writes a state that has environments in it, and without them where they cannot be pickled.

    Args:
        write_one: Writes it, with the environments or without.

    Raises:
        OSError: It cannot be written.
        Exception: Whatever pickling the rest of the state raises.
    """
    try:
        write_one(True)
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - whatever environments raise when they are pickled
        write_one(False)


def about(path: Path) -> dict[str, Any] | None:
    """Returns what a file says that it holds; None if it is not whole, or none of ours."""
    try:
        with path.open("rb") as file:
            file.seek(-_TAIL.size, os.SEEK_END)
            length, magic = _TAIL.unpack(file.read(_TAIL.size))
            if magic != _MAGIC:
                return None
            file.seek(-_TAIL.size - length, os.SEEK_END)
            told: dict[str, Any] = json.loads(file.read(length))
    except (OSError, ValueError):
        return None
    return told


class Parts(NamedTuple):
    """Where the parts of a file are, and their checksums. Files of before have no plain part."""

    crc: int
    size: int
    plain_crc: int
    plain_size: int

    @classmethod
    def taken_from(cls, told: dict[str, Any]) -> Parts:
        """Takes out of what a file says about itself what is about the file."""
        return cls(*(int(told.pop(name, 0)) for name in cls._fields))


def read_plain(path: Path, parts: Parts) -> bytes:
    """Returns the part of a file that is read without unpickling; empty where there is none.

    Raises:
        ValueError: The file is not what it was when it was written.
    """
    with path.open("rb") as file:
        file.seek(parts.size)
        plain = file.read(parts.plain_size)
    if zlib.crc32(plain) != parts.plain_crc:
        raise ValueError("the checksum of its weights is wrong")
    return plain


def read(path: Path, crc: int, size: int) -> Any:
    """Returns the state in a file. Unpickling runs what the file says: open none from people you do not trust.

    Args:
        path: The file.
        crc: The checksum that it says.
        size: The size of the state that it says.

    Raises:
        ValueError: The file is not what it was when it was written.
        Exception: What unpickling it raises.
    """
    with path.open("rb") as file:
        payload = file.read(size)
    if zlib.crc32(payload) != crc:
        raise ValueError("its checksum is wrong")
    return cloudpickle.loads(payload)


class _Checked:
    """A file that counts what is written to it and sums it up."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.crc = 0
        self.size = 0

    def write(self, data: Any) -> int:
        """See `io.RawIOBase.write`."""
        self.crc = zlib.crc32(data, self.crc)
        self.size += memoryview(data).nbytes
        return self._file.write(data)
