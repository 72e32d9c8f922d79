"""The progress display of a search that is called from Python: in a terminal, in a notebook, or none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agents.training.call_progress import SWITCH
from finder.search.observer import Observer, check_observer, guarded

if TYPE_CHECKING:
    from finder.progress.search_progress import Progress


@contextlib.contextmanager
def open_display(progress: bool | Observer) -> Iterator[Observer]:
    """Show the progress of a search for the time of the block.

    Args:
        progress: True for the display that suits standard error, False for none, or an observer.

    Yields:
        The observer, whose errors do not end the search.

    Raises:
        ConfigurationError: It is neither.
    """
    if not isinstance(progress, bool):
        check_observer(progress)
        yield guarded(progress)
    elif not progress or progress_disabled():
        yield guarded(None)
    else:
        with make_display() as display:
            yield guarded(display)


def uses_builtin_display(progress: bool | Observer) -> bool:
    """Return whether the display is one of this package, instead of an observer of the caller."""
    return isinstance(progress, bool)


def progress_disabled() -> bool:
    """Return whether the environment variable ``FINDER_PROGRESS=0`` disables the display."""
    return os.environ.get(SWITCH) == "0"


def make_display() -> Progress:
    """Return the display for a notebook, a terminal or a pipe."""
    if notebook_shell() is not None:
        from finder.progress.notebook import NotebookProgress

        return NotebookProgress()
    from finder.progress.search_progress import make_progress

    return make_progress(quiet=False)


def notebook_shell() -> Any | None:
    """Return the shell of IPython if its output goes to a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if hasattr(shell, "kernel") else None
