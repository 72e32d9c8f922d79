"""The progress display of a search in a notebook: one output of the cell, which is updated."""

from __future__ import annotations

import contextvars
import io
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType

from finder.progress.search_progress import LiveProgress

_COLUMNS = 110
_SECONDS = 0.5
"""Seconds between two redraws."""

_PAGE = '<pre style="white-space:pre;overflow-x:auto;line-height:1.35;margin:0">{}</pre>'


def recording_console() -> Console:
    """Return a console that records its output instead of printing it."""
    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    return Console(file=io.StringIO(), record=True, width=_COLUMNS, force_jupyter=False, **plain)


def as_html(console: Console) -> str:
    """Return the recorded output of a console as HTML."""
    return console.export_html(clear=False, inline_styles=True, code_format="{code}").rstrip()


class NotebookOutput:
    """An output of a cell with the lines of a console, and redrawn content below.

    An error of a redraw only ends the redraws.

    Args:
        draw: Returns the content below the lines.
        lines: The console of the lines.
        show: Called with each HTML page. Defaults to the display of IPython, which updates the output.
    """

    def __init__(
        self, draw: Callable[[], RenderableType], lines: Console, show: Callable[[str], None] | None = None
    ) -> None:
        self._draw = draw
        self._lines = lines
        self._show = show
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown = ""

    def start(self, refresh: bool = False) -> None:
        """Start the redraws."""
        self._refresh(live=True)
        # The context determines the cell of an output.
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show the lines without the redrawn content."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._refresh(live=False)

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            self._refresh(live=True)

    def _refresh(self, *, live: bool) -> None:
        try:
            self._show_page(live=live)
        except Exception:  # noqa: BLE001 - whatever drawing raises may not end a search
            self._ended.set()

    def _show_page(self, *, live: bool) -> None:
        parts = [as_html(self._lines)]
        if live:
            below = recording_console()
            below.print(self._draw())
            parts.append(as_html(below))
        page = _PAGE.format("\n".join(part for part in parts if part))
        if page != self._shown:
            self._shown = page
            self._show = self._show or _ipython_display()
            self._show(page)


class NotebookProgress(LiveProgress):
    """The display of a terminal in the output of a notebook cell.

    Args:
        clock: Returns the time in seconds.
        show: See `NotebookOutput`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, show: Callable[[str], None] | None = None) -> None:
        super().__init__(recording_console(), clock)
        self._output = NotebookOutput(self._draw, self.console, show)

    def __enter__(self) -> Self:
        self._output.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._output.stop()


def _ipython_display() -> Callable[[str], None]:
    """Return a function that shows a page in the running cell, in place of the previous one."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda page: handle.update(HTML(page))
