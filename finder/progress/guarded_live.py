"""A live display whose errors do not affect the work that it displays."""

from __future__ import annotations

import contextlib
import os
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.segment import Segments

from finder.progress.plain_text import PlainConsole


class DisplayConsole(PlainConsole):
    """A terminal console that serialises lines and redraws.

    rich computes the number of rows to move up in one thread while another thread may write further rows.
    """

    def __init__(self, **arguments: Any) -> None:
        self.lock = threading.RLock()
        super().__init__(**arguments)

    def __enter__(self) -> Self:
        self.lock.acquire()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            self.lock.release()


class GuardedLive(Live):
    """A live display that ends at the first error of a redraw, without raising it.

    rich redraws in a thread, when a line is printed above the display, and when the display stops. An exception would
    end the thread, the print or the stop. While the display lasts, Ctrl-C does not make the terminal drop output that
    it has not shown yet: after half a frame, the display would erase lines above itself.

    Args:
        draw: Returns the content.
        console: The terminal.
        on_error: Called once with the exception, after the display has ended because of it.
    """

    def __init__(
        self, draw: Callable[[], RenderableType], console: Console, on_error: Callable[[Exception], None]
    ) -> None:
        self._draw = draw
        self._on_error = on_error
        self._error: Exception | None = None
        self._reported = False
        self._started_once = False  # rich requests a first redraw before the content is ready
        self._terminal = contextlib.ExitStack()  # its mode while the display lasts
        super().__init__(console=console, refresh_per_second=4.0, transient=True)
        if isinstance(console, DisplayConsole):
            self._lock = console.lock

    @property
    def failed(self) -> bool:
        """Return whether the display has ended because of an exception."""
        return self._error is not None

    def get_renderable(self) -> RenderableType:
        """Return the rendered content, so that errors of rendering are raised here."""
        if self._error is None and self._started_once:
            try:
                return Segments(list(self.console.render(self._draw(), self.console.options)))
            except Exception as error:  # noqa: BLE001 - any error of drawing
                self._error = error
        return ""

    def start(self, refresh: bool = False) -> None:
        self._started_once = True
        self._terminal.enter_context(_output_kept(self.console))
        try:
            super().start(refresh)
        except Exception as error:  # noqa: BLE001 - such as a closed terminal
            self._error = self._error or error
        self._report()

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # errors at the end are ignored
            super().stop()
        self._terminal.close()

    def refresh(self) -> None:
        try:
            super().refresh()
        except Exception as error:  # noqa: BLE001 - as above
            self._error = self._error or error
        self._report()

    def _report(self) -> None:
        """Stop a display that has failed, and report the error."""
        if self._error is not None and not self._reported:
            self._reported = True
            self.stop()
            with contextlib.suppress(Exception):
                self._on_error(self._error)


@contextlib.contextmanager
def _output_kept(console: Console) -> Iterator[None]:
    """Keep a terminal from dropping output that it has not shown yet when an interrupt is typed."""
    before = _replace_flag(console, termios.NOFLSH)
    try:
        yield
    finally:
        if before is not None:
            _replace_flag(console, before)


def _replace_flag(console: Console, flag: int) -> int | None:
    """Set or clear the flag NOFLSH of a terminal, and return it as it was; None if nothing was changed.

    Nothing is changed on what is no terminal, nor by a process in the background, which would be stopped.
    """
    with contextlib.suppress(OSError, ValueError, termios.error):
        descriptor = console.file.fileno()
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            modes = termios.tcgetattr(descriptor)
            before = int(modes[3]) & termios.NOFLSH
            modes[3] = modes[3] & ~termios.NOFLSH | flag
            termios.tcsetattr(descriptor, termios.TCSANOW, modes)
            return before
    return None
