"""A guard around observers: their errors do not end a search."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from finder.executors import Executor
from finder.search.observer import Observer
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.study.study import OpenStudy

log = logging.getLogger(__name__)


class GuardedObserver:
    """Calls an observer and catches its exceptions: the first is printed to stderr, all of them are logged.

    Args:
        observer: The observer.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._noted = False

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        """See `Observer`."""
        self._call(self._observer.study_opened, study, n_left, executor)

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """See `Observer`."""
        self._call(self._observer.plan_grows, rows)

    def confirmation_begins(self, n_finalists: int) -> None:
        """See `Observer`."""
        self._call(self._observer.confirmation_begins, n_finalists)

    def others_run(self, n_trials: int) -> None:
        """See `Observer`."""
        self._call(self._observer.others_run, n_trials)

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        """See `Observer`."""
        self._call(self._observer.trial_started, trial, params)

    def trial_built(self, number: int) -> None:
        """See `Observer`; the method is optional."""
        if hasattr(self._observer, "trial_built"):
            self._call(self._observer.trial_built, number)

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """See `Observer`."""
        self._call(self._observer.trial_episodes, number, records)

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        """See `Observer`."""
        self._call(self._observer.trial_ended, number, outcome)

    def _call(self, event: Callable[..., None], *arguments: Any) -> None:
        try:
            event(*arguments)
        except Exception as error:
            log.debug("an observer failed", exc_info=True)
            if not self._noted:
                self._noted = True
                with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                    print(
                        f"Note: the progress display failed ({type(error).__name__}: {error}); the search continues.",
                        file=sys.stderr,
                    )
