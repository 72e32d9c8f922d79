"""A stream for words that nobody may be there to read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, TextIO


class BestEffortStream:
    """Writes to a stream for as long as that can be written to, and drops everything after that.

    A closed terminal, or the end of a program that read from a pipe, must not end a search of hours.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, with question marks for characters that the stream's encoding does not have."""
        with self._lasting():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        with self._lasting():
            self._stream.flush()

    @contextlib.contextmanager
    def _lasting(self) -> Iterator[None]:
        """Let nothing out that a stream raises which cannot be written to any more."""
        try:
            yield
        except BlockingIOError:
            pass  # full for now
        except (OSError, ValueError):  # Python's word for a stream that is closed is ValueError
            with contextlib.suppress(OSError, ValueError):  # what it still holds is not an error at exit either
                devnull = os.open(os.devnull, os.O_WRONLY)
                os.dup2(devnull, self._stream.fileno())
                os.close(devnull)

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # writing past a live display would be drawn over
            raise AttributeError(name)
        return getattr(self._stream, name)
