"""A stream that ignores write errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, TextIO


class BestEffortStream:
    """Writes to a stream while it is writable, and drops the output afterwards.

    A closed terminal or the end of the reader of a pipe must not end a long search.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, with question marks for characters that the encoding does not support."""
        with self._lasting():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with self._lasting():
            self._stream.flush()

    @contextlib.contextmanager
    def _lasting(self) -> Iterator[None]:
        """Ignore the errors of a stream that is not writable any more."""
        try:
            yield
        except BlockingIOError:
            pass  # full at present
        except (OSError, ValueError):  # a closed stream raises ValueError
            with contextlib.suppress(OSError, ValueError):  # the buffer must not raise at exit either
                devnull = os.open(os.devnull, os.O_WRONLY)
                os.dup2(devnull, self._stream.fileno())
                os.close(devnull)

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # output of this kind would be overwritten by a live display
            raise AttributeError(name)
        return getattr(self._stream, name)
