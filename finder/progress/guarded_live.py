"""A live display that cannot end, delay or spoil the work that it shows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.segment import Segments

from finder.progress.plain_text import PlainConsole


class DisplayConsole(PlainConsole):
    """A terminal on which a line and a drawing are written one after the other, never into each other.

    rich works out how many rows to go up in one thread while another may be about to write other rows.
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
    """Redraws on a terminal; the first error of a drawing ends the display, and nothing else.

    rich draws in a thread, when a line is printed above the display and when the display stops. An exception would
    end that thread in the first case, and whatever prints or stops in the others.

    Args:
        draw: Makes what is shown.
        console: The terminal.
        on_error: Called once, after the display has ended because of an exception, with this.
        per_second: Drawings a second. Defaults to 4.
    """

    def __init__(
        self,
        draw: Callable[[], RenderableType],
        console: Console,
        on_error: Callable[[Exception], None],
        per_second: float = 4.0,
    ) -> None:
        self._draw = draw
        self._on_error = on_error
        self._error: Exception | None = None
        self._reported = False
        self._started_once = False  # rich asks for a first drawing before anything is ready to be drawn
        super().__init__(console=console, refresh_per_second=per_second, transient=True)
        if isinstance(console, DisplayConsole):
            self._lock = console.lock

    @property
    def failed(self) -> bool:
        """Return whether the display has ended because of an exception."""
        return self._error is not None

    def get_renderable(self) -> RenderableType:
        """Return what is shown now, rendered already, so that all that can fail fails here."""
        if self._error is None and self._started_once:
            try:
                return Segments(list(self.console.render(self._draw(), self.console.options)))
            except Exception as error:  # noqa: BLE001 - whatever drawing raises
                self._error = error
        return ""

    def start(self, refresh: bool = False) -> None:
        self._started_once = True
        try:
            super().start(refresh)
        except Exception as error:  # noqa: BLE001 - the terminal is gone, say
            self._error = self._error or error
        self._report()

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # it is over in any case
            super().stop()

    def refresh(self) -> None:
        try:
            super().refresh()
        except Exception as error:  # noqa: BLE001 - as above
            self._error = self._error or error
        self._report()

    def _report(self) -> None:
        """End the display once it has failed, and say so."""
        if self._error is not None and not self._reported:
            self._reported = True
            self.stop()
            with contextlib.suppress(Exception):
                self._on_error(self._error)
