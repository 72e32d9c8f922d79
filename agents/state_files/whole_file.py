"""Atomic files: complete, or as they were before, after any interruption."""

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
    """Open a temporary file that replaces `path` when the block ends, and that is removed after an error.

    Args:
        path: The file to replace, in an existing folder.
        for_all: Whether users other than the owner may read it. Defaults to False.

    Raises:
        OSError: The file cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX, suffix=_SUFFIX)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if for_all:
            temporary.chmod(0o644)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Sync a folder's entries to the disk, if its file system can: otherwise a power cut may restore the old file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems reject it
            os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files of processes that were killed while writing. No process may be writing there."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        path.unlink(missing_ok=True)
