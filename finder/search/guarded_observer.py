"""A guard around observers: their errors do not end a search."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from typing import Any

from finder.search.observer import Observer

log = logging.getLogger(__name__)


class GuardedObserver:
    """Calls an observer and catches its exceptions: the first is printed to stderr, all of them are logged.

    It has the methods of `Observer`.

    Args:
        observer: The observer; None for none.
    """

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._noted = False

    def __getattr__(self, event: str) -> Any:
        return functools.partial(self._call, event)

    def _call(self, event: str, *arguments: Any) -> None:
        if self._observer is None or (event == "trial_built" and not hasattr(self._observer, event)):  # optional
            return
        try:
            getattr(self._observer, event)(*arguments)
        except Exception as error:
            log.debug("an observer failed", exc_info=True)
            if not self._noted:
                self._noted = True
                with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                    print(
                        f"Note: the progress display failed ({type(error).__name__}: {error}); the search continues.",
                        file=sys.stderr,
                    )
