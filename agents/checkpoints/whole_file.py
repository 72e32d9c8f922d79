"""Files that are there as a whole or as they were before, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PREFIX, _SUFFIX = ".", ".new"


@contextlib.contextmanager
def replacing(path: Path, *, for_all: bool = False) -> Iterator[IO[bytes]]:
    """A file to be written, which takes its place when the block ends, and leaves nothing when that raises.

    Args:
        path: Its place, in a folder that is there.
        for_all: Whether others than its owner may read it. Defaults to False.

    Raises:
        OSError: It cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX, suffix=_SUFFIX)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if for_all:
            temporary.chmod(0o644)  # mkstemp makes files that only their owner reads
        temporary.replace(path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Write to the disk which files a folder has: without it, a power cut may bring back the file of before."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote such files. Nobody may be writing there."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        path.unlink(missing_ok=True)
